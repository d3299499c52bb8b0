"""Trackers: TensorBoard and MLflow, told of every run that is finished.

Both are optional packages, imported when one of them is asked for. A run there has the settings of
the spec as parameters, its scores, step and seconds as metrics, and curves where the result has
them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from pdgnn.errors import InputError
from pdgnn.training.spec import SETTINGS, RunResult, RunSpec

__all__ = ["MLflow", "TensorBoard", "Tracker", "find_tracker", "tracker_place"]

CURVES = ("loss", "val", "test")
"""The columns of ``RunResult.curves``."""
BATCH = 1000
"""The most metrics that MLflow takes at once."""
EXPERIMENT = "pdgnn"
RETRIES = "3"
"""Of a request to MLflow's server, each after a pause twice as long: seconds, where its own seven
would hold a training up for minutes."""


class Tracker(Protocol):
    """Logs finished runs."""

    def run(self, result: RunResult, /) -> None:
        """This run is finished; called once for each."""

    def close(self) -> None:
        """There are no more."""


def find_tracker(text: str) -> Tracker:
    """The tracker that ``"tensorboard:DIR"`` or ``"mlflow:URI"`` means.

    An MLflow URI is the address of a server, or a file such as ``sqlite:///runs.db``, for which
    MLflow needs its full package.
    """
    kind, place = tracker_place(text)
    return TensorBoard(place) if kind == "tensorboard" else MLflow(place)


def tracker_place(text: str) -> tuple[str, str]:
    """``"tensorboard:DIR"`` as its kind and its folder or address; nothing is opened."""
    kind, _, place = text.partition(":")
    if kind not in ("tensorboard", "mlflow") or not place:
        raise InputError(f"unknown tracker {text!r}; use 'tensorboard:DIR' or 'mlflow:URI'")
    return kind, place


class TensorBoard:
    """A folder for ``tensorboard --logdir``: one folder in it for each run.

    A run has scalars ``score/val`` and ``score/test`` at its best step, the page of
    hyperparameters, and ``curve/loss``, ``curve/val`` and ``curve/test`` by step.
    """

    def __init__(self, folder: str | Path) -> None:
        self._torch = _imported("torch.utils.tensorboard", "tensorboard")
        self.folder = Path(folder)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise InputError(f"cannot make the folder {folder}: {e.strerror or e}") from e

    def run(self, result: RunResult) -> None:
        """Write the files of this run."""
        from torch.utils.tensorboard.summary import hparams

        writer = self._torch.SummaryWriter(str(self.folder / _name(result.spec)))
        try:
            settings = {n: v for n, v in _settings(result.spec).items() if v is not None}
            metrics = _metrics(result)
            for summary in hparams(settings, dict.fromkeys(metrics)):  # type: ignore[no-untyped-call]
                writer._get_file_writer().add_summary(summary)
            for name, value in metrics.items():
                writer.add_scalar(name, value, result.step)
            for step, values in _curves(result):
                for name, value in zip(CURVES, values, strict=True):
                    writer.add_scalar(f"curve/{name}", value, step)
        finally:
            writer.close()

    def close(self) -> None:
        """Does nothing, as the files of each run are closed."""


class MLflow:
    """An MLflow server or file, where runs are those of the experiment "pdgnn"."""

    def __init__(self, uri: str) -> None:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        os.environ.setdefault("DO_NOT_TRACK", "true")
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", RETRIES)
        mlflow = _imported("mlflow", "mlflow")
        self._entities = import_module("mlflow.entities")
        try:
            self._client = mlflow.MlflowClient(tracking_uri=uri)
            known = self._client.get_experiment_by_name(EXPERIMENT)
            found = known and known.experiment_id
            self._experiment = found or self._client.create_experiment(EXPERIMENT)
        except (mlflow.exceptions.MlflowException, ImportError) as e:
            said = str(e).strip().partition("\n")[0][:200]
            if not uri.startswith(("http:", "https:")):
                said += "; for a store in a file: pip install mlflow"
            raise InputError(f"cannot track runs in MLflow at {uri}: {said}") from e

    def run(self, result: RunResult) -> None:
        """Log this run, as one that is finished."""
        client, spec, metric = self._client, result.spec, self._entities.Metric
        made = client.create_run(self._experiment, run_name=_name(spec))
        run, when = made.info.run_id, made.info.start_time
        parameters = [self._entities.Param(n, str(v)) for n, v in _settings(spec).items()]
        client.log_batch(run, params=parameters)
        logged = [metric(n, v, when, result.step) for n, v in _metrics(result).items()]
        for step, values in _curves(result):
            named = zip(CURVES, values, strict=True)
            logged += [metric(f"curve/{name}", value, when, step) for name, value in named]
        for i in range(0, len(logged), BATCH):
            client.log_batch(run, metrics=logged[i : i + BATCH])
        client.set_terminated(run)

    def close(self) -> None:
        """Does nothing, as each run is logged whole."""


def _imported(module: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ImportError as e:
        raise InputError(
            f"the tracker {extra!r} is not installed ({e}); "
            f"install it with: pip install 'pdgnn[{extra}]'"
        ) from e


def _name(spec: RunSpec) -> str:
    """A name for a run that is also one of a folder, whatever the dataset is called."""
    return re.sub(r"[^\w.=-]+", "_", f"{spec.model}-{spec.dataset}-{spec.split}-{spec.key}")


def _settings(spec: RunSpec) -> dict[str, Any]:
    """All settings by name, options as ``option.NAME``."""
    own = {f"option.{name}": value for name, value in spec.options.items()}
    return {name: getattr(spec, name) for name in SETTINGS} | own


def _metrics(result: RunResult) -> dict[str, float]:
    found = {f"score/{name}": getattr(result, name) for name in ("val", "test")}
    found |= {name: float(getattr(result, name)) for name in ("step", "steps_run", "seconds")}
    if result.diverged_at is not None:
        found["diverged_at"] = float(result.diverged_at)
    return found


def _curves(result: RunResult) -> Iterator[tuple[int, list[float]]]:
    """Step and values of the curves, from step 1 on; nothing where there are none."""
    if result.curves is not None:
        yield from enumerate(result.curves.tolist(), 1)
