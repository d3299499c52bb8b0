"""Runs trained by a real Ray cluster of two nodes on this machine, whose workers may be killed."""

from __future__ import annotations

import math
import os
import secrets
import signal
import sys
import time
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from pdgnn import InputError
from pdgnn.models import MODELS, Model
from pdgnn.training import Progress
from pdgnn.training.checkpoint import RunFolder
from pdgnn.training.engines import ray as engine
from pdgnn.training.engines.ray import RayEngine
from pdgnn.training.ledger import Ledger
from pdgnn.training.spec import resolved
from runs import go, same, spec

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32))  # not the user's own
ray = pytest.importorskip("ray")
pytestmark = pytest.mark.xdist_group("ray")  # one cluster, not one for each process of the tests

NODE = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
QUICK = {"health_check_period_ms": 300, "health_check_failure_threshold": 3}
"""Nodes that are gone are noticed soon."""


@pytest.fixture(scope="module")
def cluster():
    from ray.cluster_utils import Cluster

    before = torch.get_num_threads()
    torch.set_num_threads(1)  # what each of the workers has
    head = {**NODE, "include_dashboard": False, "_system_config": QUICK}
    made = Cluster(initialize_head=True, head_node_args=head)
    made.second = made.add_node(**NODE)
    yield made
    ray.shutdown()
    made.shutdown()
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def joined(cluster):
    """A driver of that cluster, which keeps its workers from one test to the next."""
    ray.init(cluster.address, log_to_driver=False, logging_level="ERROR")
    return cluster


@pytest.fixture
def finished(monkeypatch):
    """The keys of the runs in the order in which the ledger was told that they are finished."""
    found, add = [], Ledger.add_results

    def noted(self, results):
        found.extend(r.spec.key for r in results)
        add(self, results)

    monkeypatch.setattr(Ledger, "add_results", noted)
    return found


def own(loss) -> dict[str, Model]:
    """A model whose loss calls ``loss(step)`` first; local functions are sent as they are."""

    def whole(outputs, target, train, step):
        loss(int(step))
        return F.binary_cross_entropy_with_logits(outputs[:, 0], target.float(), train.float())

    return {"mine": replace(MODELS["gcn"], loss=whole)}


def mine(count: int, **options):
    runs = [spec(split=i, seed=i, model="mine", **options) for i in range(count)]
    return [resolved(run, MODELS["gcn"]) for run in runs]


def test_an_engine_joins_a_cluster_and_leaves_it(cluster):
    """Before the other tests join it for longer."""
    handler = signal.getsignal(signal.SIGTERM)
    with engine._joined(ray, cluster.address):
        assert ray.cluster_resources()["CPU"] == 2
        with engine._joined(ray, cluster.address):  # that of the caller, who leaves it
            pass
        assert ray.is_initialized()
    assert not ray.is_initialized()
    assert signal.getsignal(signal.SIGTERM) is handler


def test_the_same_numbers_come_from_a_cluster(joined, tmp_path, finished, monkeypatch):
    names = ("gcn", "pd-gat", "gcn", "pd-gcn", "gcn", "mlp")
    runs = [spec(split=i, seed=i, model=m, gamma=0.5) for i, m in enumerate(names)]
    alone = go(runs, curves=True)
    del finished[:]
    told: list[Progress] = []
    ahead: list[int] = []
    take = Ledger.take

    def noted(self, share):
        ahead.append(len(ahead) + 1 - len(finished))
        return take(self, share)

    monkeypatch.setattr(Ledger, "take", noted)
    options = {"curves": True, "folder": tmp_path, "engine": RayEngine()}
    found = go(runs, **options, progress=told.append)
    same(found, alone)
    assert sorted(finished) == sorted(result.spec.key for result in found)
    assert max(ahead) <= 3  # two nodes of one core, and one that waits
    assert {p.runs for p in told} == {6}
    assert [p.runs_done for p in told] == sorted(p.runs_done for p in told)
    assert {s.key for p in told for s in p.specs} == set(finished)
    same(go(runs, **options), alone)  # nothing is left to do
    assert len(finished) == 6


def test_a_killed_worker_is_replaced_and_no_run_counts_twice(joined, tmp_path, finished):
    runs, killed, steps = mine(3, steps=8), tmp_path / "killed", tmp_path / "steps"
    steps.mkdir()

    def die(step: int) -> None:
        with (steps / str(os.getpid())).open("a") as said:
            said.write(f"{step} ")
        if step == 6 and not killed.exists():
            with suppress(FileExistsError):
                killed.touch(exist_ok=False)
                os.kill(os.getpid(), signal.SIGKILL)

    alone = go(runs, models=own(lambda _: None), curves=True)
    del finished[:]
    options = {"folder": tmp_path / "runs", "save_seconds": 0.0, "engine": RayEngine()}
    same(go(runs, models=own(die), curves=True, **options), alone)
    assert sorted(finished) == sorted(run.key for run in runs)
    assert not list((tmp_path / "runs").glob("under-way-*"))
    begun = []  # the first steps of all attempts
    for file in steps.iterdir():
        trained = [int(step) for step in file.read_text().split()]
        before = [math.inf, *trained[:-1]]
        begun += [step for last, step in zip(before, trained, strict=True) if step < last]
    assert sorted(begun)[:3] == [1, 1, 1]
    assert len(begun) == 4
    assert 3 < max(begun) <= 6  # the second attempt, from the last state that was sent


def test_a_share_that_kills_its_workers_ends_the_training(joined):
    def die(step: int) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(InputError, match="worker that trained mine on board was lost, 1 in all"):
        go(mine(1), models=own(die), engine=RayEngine(retries=0))


def test_errors_of_a_group_end_the_training_as_they_are(joined):
    def refuse(step: int) -> None:
        raise InputError("no such loss")

    def fail(step: int) -> None:
        raise ZeroDivisionError("a bug")

    with pytest.raises(InputError, match=r"^no such loss$"):
        go(mine(3), models=own(refuse), engine=RayEngine())
    with pytest.raises(RuntimeError, match=r"in a worker(?s:.)*ZeroDivisionError: a bug"):
        go(mine(1), models=own(fail), engine=RayEngine())


def test_ctrl_c_keeps_what_is_done_and_the_states_of_the_others(joined, tmp_path):
    runs = [*mine(1), *mine(3, steps=100_000)[1:]]

    def interrupt(p: Progress) -> None:
        """When one is finished, and the others are under way."""
        if p.runs_done == 1 and len(p.specs) == 2 and p.step > 0:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        go(
            runs,
            models=own(lambda _: None),
            engine=RayEngine(),
            folder=tmp_path,
            progress=interrupt,
        )
    folder = RunFolder(tmp_path)
    states = folder.states([run.key for run in runs])
    assert set(states) == {run.key for run in runs[1:]}
    assert all(int(row["step"]) > 0 for row in states.values())
    assert len(go(runs[:1], models=own(lambda _: None), folder=tmp_path)) == 1


def test_a_lost_node_s_runs_are_trained_by_another(joined, tmp_path, finished):
    """The last of the tests with a cluster: one node is left."""
    runs, removed = mine(3), tmp_path / "removed"
    alone = go(runs, models=own(lambda _: None), curves=True)
    del finished[:]

    def remove(p: Progress) -> None:
        """When a run is under way on each of the nodes, neither of which can end."""
        if len(p.specs) == 2 and not removed.exists():
            joined.remove_node(joined.second, allow_graceful=False)
            removed.touch()

    def wait(step: int) -> None:
        until = time.monotonic() + 300  # seconds; it is never that long
        while step == 3 and not removed.exists() and time.monotonic() < until:
            time.sleep(0.01)

    found = go(runs, models=own(wait), curves=True, engine=RayEngine(), progress=remove)
    same(found, alone)
    assert sorted(finished) == sorted(run.key for run in runs)


# --- without a cluster ----------------------------------------------------------------------------


def test_a_gpu_is_shared_by_so_many_tasks():
    driver = object.__new__(engine._Driver)
    there = {"CPU": 12.0, "GPU": 3.0}
    driver._ray = SimpleNamespace(cluster_resources=lambda: there)
    driver._gpu, driver._engine = True, RayEngine(workers_per_gpu=2)
    assert driver._slots() == 6
    there["CPU"] = 4.0  # every task takes a core too
    assert driver._slots() == 4
    driver._gpu = False
    assert driver._slots() == 4


def test_a_gpu_of_the_cluster_need_not_be_here(monkeypatch):
    """The driver of a cluster whose head has none."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    there: dict[str, float] = {"CPU": 4.0}
    fake = SimpleNamespace(is_initialized=lambda: True, cluster_resources=lambda: there)
    monkeypatch.setattr(engine, "_import_ray", lambda: fake)
    with pytest.raises(InputError, match="the Ray cluster has no GPU for tasks"):
        go([spec()], engine=RayEngine(), device="cuda")
    with pytest.raises(InputError, match="needs a CUDA GPU and there is none"):
        go([spec()], device="cuda")


def test_what_is_missing_is_told(monkeypatch):
    def refuse(**options):
        raise ConnectionError("nobody is there\nand more")

    fake = SimpleNamespace(is_initialized=lambda: False, init=refuse)
    monkeypatch.setattr(engine, "_import_ray", lambda: fake)
    with pytest.raises(InputError, match="cannot join the Ray cluster auto: nobody is there; see"):
        go(mine(1), models=own(lambda _: None), engine=RayEngine("auto"))


def test_the_extra_is_named_where_ray_is_not_installed(monkeypatch):
    engine._import_ray.cache_clear()
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "ray", None)
        with pytest.raises(InputError, match=r"install it with: pip install 'pdgnn\[ray\]'"):
            go([spec()], engine=RayEngine())


def test_a_cluster_without_cores_is_an_error(monkeypatch):
    fake = SimpleNamespace(is_initialized=lambda: True, cluster_resources=dict)
    monkeypatch.setattr(engine, "_import_ray", lambda: fake)
    with pytest.raises(InputError, match="the Ray cluster has no CPU for tasks"):
        go([spec()], engine=RayEngine())
