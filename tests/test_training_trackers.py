"""What trackers write is read back with their own packages."""

from __future__ import annotations

import math
import os
import sys
from dataclasses import replace

import pytest

from pdgnn import InputError
from pdgnn.training import RunResult, RunSpec
from pdgnn.training.trackers import MLflow, TensorBoard, find_tracker
from runs import go, spec

EXACT = 1e-6
"""TensorBoard keeps float32."""


def finished() -> list[RunResult]:
    """Two runs with curves, one without, that has diverged and has a name to be careful with."""
    runs = go([spec(split=i, seed=i) for i in range(2)], curves=True)
    odd = RunSpec(dataset="../a b:size=6", model="mine", options={"k": 3, "depth": "x"})
    return [*runs, RunResult(odd, 0.5, math.nan, 3, 9, 1.5, diverged_at=7)]


def test_tensorboard_has_every_run(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams import metadata

    tracker = find_tracker(f"tensorboard:{tmp_path / 'board'}")
    assert isinstance(tracker, TensorBoard)
    results = finished()
    for result in results:
        tracker.run(result)
    tracker.close()
    folders = sorted(p.name for p in (tmp_path / "board").iterdir())
    assert len(folders) == 3
    for result in results:
        [name] = [folder for folder in folders if folder.endswith(result.spec.key)]
        read = EventAccumulator(str(tmp_path / "board" / name))
        read.Reload()
        [val] = read.Scalars("score/val")
        assert (val.step, val.value) == (result.step, pytest.approx(result.val, abs=EXACT))
        [test] = read.Scalars("score/test")
        assert test.value == pytest.approx(result.test, abs=EXACT, nan_ok=True)
        assert read.Scalars("seconds")[0].value == pytest.approx(result.seconds, rel=EXACT)
        content = read.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
        settings = metadata.parse_session_start_info_plugin_data(content).hparams
        assert settings["model"].string_value == result.spec.model
        assert settings["split"].number_value == result.spec.split
        if result.curves is None:
            assert "curve/loss" not in read.Tags()["scalars"]
            assert settings["option.k"].number_value == 3
            assert settings["option.depth"].string_value == "x"
            assert settings["depth"].number_value == 2
            assert read.Scalars("diverged_at")[0].value == 7
            continue
        for column, tag in enumerate(("loss", "val", "test")):
            curve = read.Scalars(f"curve/{tag}")
            assert [event.step for event in curve] == list(range(1, result.steps_run + 1))
            assert [event.value for event in curve] == result.curves[:, column].tolist()


def test_a_training_tells_its_tracker_of_each_run_once(tmp_path):
    pytest.importorskip("tensorboard")
    runs = [spec(split=i) for i in range(3)]
    tracker = find_tracker(f"tensorboard:{tmp_path / 'board'}")
    go(runs, tracker=tracker, folder=tmp_path / "runs")
    go(runs, tracker=tracker, folder=tmp_path / "runs")  # all are finished before
    files = [file.parent.name for file in (tmp_path / "board").glob("*/events*")]
    assert sorted(name.rpartition("-")[2] for name in files) == sorted(run.key for run in runs)


def test_mlflow_has_every_run(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    uri = (tmp_path / "runs").as_uri()
    results = finished()
    long = replace(results[0], spec=replace(results[0].spec, seed=9))
    long = replace(long, curves=results[0].curves.repeat(100, axis=0), steps_run=600)
    for result in [*results, long]:
        tracker = find_tracker(f"mlflow:{uri}")  # the experiment is made by the first
        assert isinstance(tracker, MLflow)
        tracker.run(result)
        tracker.close()
    client = mlflow.MlflowClient(tracking_uri=uri)
    [experiment] = [e for e in client.search_experiments() if e.name == "pdgnn"]
    runs = client.search_runs([experiment.experiment_id])
    assert {run.info.status for run in runs} == {"FINISHED"}
    found = {run.info.run_name.rpartition("-")[2]: run for run in runs}
    assert set(found) == {result.spec.key for result in [*results, long]}
    for result in results:
        run = found[result.spec.key].data
        assert run.params["model"] == result.spec.model
        assert run.params["split"] == str(result.spec.split)
        assert run.metrics["score/val"] == result.val
        assert run.metrics["score/test"] == pytest.approx(result.test, nan_ok=True)
        assert run.metrics["seconds"] == result.seconds
    assert found[results[2].spec.key].data.params["option.k"] == "3"
    curve = client.get_metric_history(found[long.spec.key].info.run_id, "curve/val")
    assert [m.step for m in curve] == list(range(1, 601))
    assert [m.value for m in curve] == long.curves[:, 1].tolist()


@pytest.mark.parametrize(
    ("uri", "message"),
    [("http://localhost:9", "cannot track"), ("nothing:///a.db", "pip install mlflow$")],
)
def test_what_mlflow_cannot_reach_is_one_line(uri, message, monkeypatch):
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(InputError, match=message) as error:
        find_tracker(f"mlflow:{uri}")
    assert "\n" not in str(error.value)


def test_mlflow_does_not_try_for_minutes_unless_it_is_told_to(tmp_path, monkeypatch):
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "7")
    MLflow((tmp_path / "runs").as_uri())
    assert os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] == "7"
    monkeypatch.delenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES")
    MLflow((tmp_path / "runs").as_uri())
    assert os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] == "3"


@pytest.mark.parametrize("text", ["tensorboard", "tensorboard:", "wandb:x", ""])
def test_unknown_trackers_are_one_line(text):
    with pytest.raises(InputError, match="use 'tensorboard:DIR' or 'mlflow:URI'"):
        find_tracker(text)


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path):
    pytest.importorskip("tensorboard")
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot make the folder"):
        TensorBoard(tmp_path / "file")


@pytest.mark.parametrize(
    ("kind", "module"), [("tensorboard", "torch.utils.tensorboard"), ("mlflow", "mlflow")]
)
def test_the_extra_is_named_where_the_package_is_not_installed(kind, module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError, match=rf"install it with: pip install 'pdgnn\[{kind}\]'"):
        find_tracker(f"{kind}:somewhere")
