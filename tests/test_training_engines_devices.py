"""Which GPU each worker has, and how runs are spread over GPUs; no GPU is needed."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from pdgnn import InputError
from pdgnn.models import MODELS
from pdgnn.training.engines import Job, find_engine, here, processes
from pdgnn.training.engines.devices import Place, gpus_for, places, spread
from pdgnn.training.engines.here import Here
from pdgnn.training.engines.processes import Processes
from pdgnn.training.engines.ray import RayEngine
from pdgnn.training.inputs import InputCache
from pdgnn.training.ledger import Ledger
from pdgnn.training.share import Settings
from runs import board, spec

CUDA, CPU = torch.device("cuda"), torch.device("cpu")
RUNS = [spec(split=i) for i in range(10)]


@pytest.fixture
def gpus(monkeypatch):
    """So many that are visible."""

    def visible(count: int) -> None:
        monkeypatch.setattr(torch.cuda, "device_count", lambda: count)

    return visible


def test_workers_take_gpus_in_turn(gpus):
    gpus(2)
    assert places(CUDA, 2) == [Place(torch.device("cuda:0")), Place(torch.device("cuda:1"))]
    three = places(CUDA, 3)
    assert [p.device.index for p in three] == [0, 1, 0]
    assert [p.memory for p in three] == [0.5, 1.0, 0.5]  # two share the first
    assert places(torch.device("cuda:1"), 2) == [Place(torch.device("cuda:1"), 0.5)] * 2
    assert places(CPU, 2) == [Place(CPU, 0.5)] * 2
    assert [gpus_for(d) for d in (CUDA, torch.device("cuda:1"), CPU)] == [2, 1, 0]
    gpus(1)
    assert places(CUDA, 4) == [Place(CUDA, 0.25)] * 4


def test_shares_are_cut_so_that_every_gpu_has_one():
    cuda = Settings(CUDA)
    assert spread([RUNS], cuda, 1) == [RUNS]
    assert spread([RUNS], cuda, 3) == [RUNS[:4], RUNS[4:8], RUNS[8:]]
    assert spread([RUNS[:8], RUNS[8:]], cuda, 2) == [RUNS[:4], RUNS[4:8], RUNS[8:]]
    assert spread([RUNS[:1]], cuda, 4) == [RUNS[:1]]
    assert spread([], cuda, 4) == []
    assert spread([RUNS], replace(cuda, most_runs=10), 2) == [RUNS]  # as it was asked for


def job(device: torch.device, runs=RUNS, models=None) -> Job:
    ledger = Ledger({run.key: run for run in runs})
    return Job(
        [list(runs)], InputCache({"board": board()}, models or {}), Settings(device), ledger, {}
    )


class Pool:
    """Notes where workers would be started, and starts none."""

    started: list[list[Place]]
    live = ()

    def __init__(self, job, message):
        self.shares = job.shares
        Pool.started = []

    def start(self, places):
        Pool.started.append((list(places), self.shares))

    def end(self):
        pass


def test_all_gpus_of_this_machine_are_used_unless_one_is_named(gpus, monkeypatch):
    monkeypatch.setattr(processes, "WorkerPool", Pool)
    trained = []
    monkeypatch.setattr(here, "train_share", lambda specs, *_: trained.append(list(specs)))
    gpus(2)
    Here().train(job(CUDA))
    [(seats, shares)] = Pool.started
    assert [str(p.device) for p in seats] == ["cuda:0", "cuda:1"]
    assert shares == [RUNS[:5], RUNS[5:]]
    assert trained == []
    for alone in (job(torch.device("cuda:1")), job(CPU), job(CUDA, RUNS[:1])):
        Here().train(alone)
        assert trained.pop() == alone.shares[0]
    gpus(1)
    Here().train(job(CUDA))
    assert trained.pop() == RUNS
    assert len(Pool.started) == 1
    gpus(4)
    Processes(8).train(job(CUDA))
    [(seats, shares)] = Pool.started
    assert [p.device.index for p in seats] == [0, 1, 2, 3]  # no more than there are shares
    assert [len(share) for share in shares] == [3, 3, 3, 1]


def test_a_model_that_cannot_be_sent_trains_on_one_gpu_and_says_so(gpus, monkeypatch):
    trained = []
    monkeypatch.setattr(here, "train_share", lambda specs, *_: trained.append(list(specs)))
    gpus(2)
    gcn = MODELS["gcn"]
    own = {"mine": replace(gcn, build=lambda size, run: gcn.build(size, run) or None)}
    with pytest.warns(UserWarning, match="only one GPU is used: a model cannot be sent"):
        Here().train(job(CUDA, models=own))
    assert trained == [RUNS]


def test_engines_are_found_by_name():
    assert isinstance(find_engine(), Here)
    assert isinstance(find_engine("here", workers=2), Processes)
    assert find_engine("processes", workers=3).workers == 3
    ray = find_engine("ray", workers=2, address="auto")
    assert isinstance(ray, RayEngine)
    assert (ray.address, ray.workers_per_gpu) == ("auto", 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "spark"}, "there is no engine 'spark'; there are here, processes, ray"),
        ({"name": "here", "address": "auto"}, "an address is that of a Ray cluster"),
        ({"name": "ray", "workers": 0}, "workers must be a whole number of at least 1, not 0"),
    ],
)
def test_bad_engines_are_one_line(options, message):
    with pytest.raises(InputError, match=message):
        find_engine(**options)
