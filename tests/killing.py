"""Trainings and reproductions that share a store and are killed; run as a program that forks.

Every child stops at a gate after each step, so that neither a slow nor a fast machine changes how
much is done between two kills. Where within a step the kill falls is up to chance.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from children import Child, Gate
from pdgnn.experiments.means import Means
from pdgnn.experiments.reproduction import Reproduction
from pdgnn.experiments.request import Request
from pdgnn.training import loop, stages, train
from pdgnn.training.store import Store, read_runs
from runs import TASKS, spec

KILLS = 30
RUNS = [spec(split=i % 10, seed=i, model=m, width=4) for i in range(20) for m in ("gcn", "mlp")]
REQUEST = Request(
    name="table2",
    rows=["GCN", "SAGE", "GAT"],
    datasets=["minesweeper-generated:size=5,seed=1"],
    splits=(0, 1),
    steps=20,
    width=8,
)
LOG = """
CREATE TABLE log (event, key);
CREATE TRIGGER a AFTER INSERT ON runs BEGIN INSERT INTO log VALUES ('done', NEW.key); END;
CREATE TRIGGER b AFTER UPDATE ON runs BEGIN INSERT INTO log VALUES ('done', NEW.key); END;
CREATE TRIGGER c AFTER INSERT ON claims BEGIN INSERT INTO log VALUES ('begun', NEW.key); END;
"""


def training(store: Path, step: Callable[..., None] | None) -> object:
    """Train all that is missing in the store, the state kept after every step."""
    return train(RUNS, tasks=TASKS, store=store, save_seconds=0.0, progress=step)


def reproduction(store: Path, step: Callable[..., None] | None) -> object:
    """The same by a search in stages; what comes of it is the table."""
    work = Reproduction(REQUEST, Means(store=store, save_seconds=0.0, progress=step))
    work.run()
    return {
        key: [(t.spec, t.splits, t.val, t.test, t.whole) for t in cell.tried]
        for key, cell in work.table().cells.items()
    }


@dataclass(frozen=True)
class Job:
    """What is killed, and what comes of it if it is not."""

    work: Callable[[Path, Callable[..., None] | None], object]
    whole: Path

    @property
    def steps(self) -> int:
        """That all its runs take together."""
        return sum(run.result.steps_run for run in read_runs(self.whole)[0])

    def begin(self, store: Path, gate: Gate | None = None) -> Child:
        """A child that does it."""
        return Child(lambda: self.work(store, None if gate is None else gate.pass_))


def logged(store: Path) -> Path:
    """A new store that notes when a run is begun and finished."""
    with Store(store) as made:
        made._db.executescript(LOG)
    return store


def check(store: Path, job: Job, lost: int) -> None:
    """The store has what an unbroken one has, and no more than `lost` runs were done twice."""
    found, _ = read_runs(store)
    wanted, _ = read_runs(job.whole)
    by_key = {run.result.spec.key: run.result for run in wanted}
    assert len(found) == len(wanted)
    assert all(run.result == by_key[run.result.spec.key] for run in found)
    with Store(store) as made:
        done = [key for (key,) in made.question("SELECT key FROM log WHERE event = 'done'")]
        begun = [key for (key,) in made.question("SELECT key FROM log WHERE event = 'begun'")]
        assert made.question("SELECT * FROM claims") == []
    assert sorted(done) == sorted(by_key), "a run was finished twice"
    assert set(begun) == set(done)
    assert len(begun) <= len(wanted) + lost, f"{len(begun)} runs were begun"
    assert job.work(store, None) == job.work(job.whole, None)
    left = [p.name for p in store.parent.rglob("*") if store.name in str(p)]
    assert left == [store.name], f"{left} are left"


def one(folder: Path, job: Job) -> None:
    """One process, killed again and again, its steps few enough that it never comes to its end."""
    store, most = logged(folder / f"one-{job.whole.name}"), job.steps // KILLS - 1
    for _ in range(KILLS):
        gate, steps = Gate(), random.randint(1, most)
        child = job.begin(store, gate)
        gate.open(steps + 1)
        gate.seen(steps)
        child.kill(within=0.02)
    job.begin(store).end()
    check(store, job, KILLS)


def two(folder: Path, job: Job) -> None:
    """Two processes, now one and now the other killed."""
    store, most = logged(folder / f"two-{job.whole.name}"), job.steps // KILLS // 2 - 1
    gates = [Gate(), Gate()]
    children = [job.begin(store, gate) for gate in gates]
    for _ in range(KILLS):
        steps, chosen = random.randint(1, most), random.randrange(2)
        for gate in gates:
            gate.open(steps)
        for gate in gates:
            gate.seen(steps)
        children[chosen].kill(within=0.02)
        gates[chosen] = Gate()
        children[chosen] = job.begin(store, gates[chosen])
    for gate in gates:
        gate.open(8 * job.steps)
    for child in children:
        child.end()
    check(store, job, KILLS)


def taken_over(folder: Path, job: Job) -> None:
    """A process waits for the run of another, and goes on with it when that one is killed."""
    store, gate, other = logged(folder / f"over-{job.whole.name}"), Gate(), Gate()
    first = job.begin(store, gate)
    gate.open(4)
    gate.seen(4)  # it is at its step 3 or 4, whose state is kept, and cannot go on
    second = job.begin(store, other)
    other.open(10 * job.steps)
    other.seen((len(RUNS) - 1) * (RUNS[0].steps + 1))  # all other runs, each looked at before too
    other.seen(3)  # it waits, and tells so
    first.kill()
    second.end()
    check(store, job, 1)


if __name__ == "__main__":
    random.seed(1)
    torch.set_num_threads(1)
    loop.LOOK_SECONDS = 0.0  # after every step
    stages.LEAST_STEPS = 1
    train(RUNS[:2], tasks=TASKS)  # children need not load and compile what it needs
    path = Path(sys.argv[1])
    for number, (work, scenes) in enumerate(
        [(training, (one, two, taken_over)), (reproduction, (one, two))]
    ):
        job = Job(work, path / f"whole-{number}.sqlite")
        job.begin(job.whole).end()
        for scene in scenes:
            scene(path, job)
            print(work.__name__, scene.__name__, flush=True)
