"""Runs trained by several processes of one thread each.

On a CPU a process takes one run at a time, as small graphs gain little from threads; on a GPU a
group of one shape, as small graphs leave most of it idle.

Only the parent reads and writes the folder. It talks to each worker over a pipe of its own, so that
a worker that is killed holds no lock that another waits for. Messages are pickled, by and for our
own processes; no shared memory is used, so that none is left behind by a process that is killed.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from types import FrameType
from typing import Any

from pdgnn.errors import InputError, check_whole
from pdgnn.training.engines import Job
from pdgnn.training.engines.devices import Place, gpus_for, places, spread
from pdgnn.training.engines.messages import (
    Briefing,
    Speaker,
    hear,
    own_rows,
    tell_of_all,
    worker_error,
)
from pdgnn.training.loop import Progress, signals_between_steps
from pdgnn.training.share import train_share
from pdgnn.training.spec import RunSpec

__all__ = ["Processes", "end_with_parent", "packed"]

LISTEN_SECONDS = 0.2
"""How long a signal to stop may wait while no worker has anything to say."""
END_SECONDS = 10.0
"""How long a worker may take to end after its last word."""


class Processes:
    """So many processes on this machine, of one thread each; spread over its GPUs with "cuda"."""

    def __init__(self, workers: int) -> None:
        self.workers = check_whole("workers", workers)

    def train(self, job: Job) -> None:
        """Train every share to its end.

        Signals to stop, and errors, end each worker after its step under way; its state is kept. A
        second signal does not wait.
        """
        gpus = min(gpus_for(job.settings.device), self.workers)
        job = replace(job, shares=spread(job.shares, job.settings, gpus))
        pool = WorkerPool(job, packed(job))
        with signals_between_steps() as between:
            try:
                pool.start(places(job.settings.device, min(self.workers, len(job.shares))))
                while pool.live:
                    between()
                    pool.listen()
            except BaseException:
                pool.stop()
                raise
            finally:
                pool.end()


def packed(job: Job) -> bytes:
    """What every worker is told before its first share; an error where that cannot be sent."""
    briefing = Briefing.of(job, keeps=job.ledger.folder is not None)
    try:
        return pickle.dumps(briefing)
    except (pickle.PicklingError, AttributeError, TypeError) as e:
        if not job.inputs.models:
            raise
        raise InputError(
            f"a model cannot be sent to worker processes ({e}); give it functions that are defined "
            "at the top of a module, not lambdas, or train with workers=1"
        ) from e


@dataclass(eq=False)
class _Worker:
    process: SpawnProcess
    channel: Connection
    ready: bool = False  # it has said something, and was told of the job
    released: bool = False  # it was told that there is no more to do
    spec: RunSpec | None = None  # the first of the last that it was given
    progress: Progress | None = None  # of the run under way

    def death(self) -> InputError:
        """Why this worker is no longer there."""
        self.process.join(END_SECONDS)
        code = self.process.exitcode or 0
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        if self.spec is None:
            return InputError(
                f"a worker process {how} before it began; a script must call train with workers or "
                'several GPUs under `if __name__ == "__main__":`, as each worker imports it'
            )
        return InputError(
            f"a worker process {how} while it trained {self.spec.model} on {self.spec.dataset}; if "
            "there was not enough memory, take fewer workers"
        )


class WorkerPool:
    """The workers as the parent sees them, and the runs that wait for one."""

    def __init__(self, job: Job, message: bytes) -> None:
        self._ledger, self._waiting, self._begun = job.ledger, list(job.shares), job.begun
        self._take = job.take
        self._all: list[_Worker] = []
        self.live: list[_Worker] = []  # those that may still say something
        self._stopping = False
        self._message = message

    def start(self, places: Sequence[Place]) -> None:
        """Start a process for each place, none of which waits for another."""
        context = multiprocessing.get_context("spawn")
        for place in places:
            mine, theirs = context.Pipe()
            process = context.Process(target=_work, args=(theirs, place), daemon=True)
            with theirs, _without_sigint():
                process.start()
            self._all.append(_Worker(process, mine))
            self.live.append(self._all[-1])

    def listen(self) -> None:
        """Hear a word of each worker that has one, within a short time."""
        speaking = {w.channel: w for w in self.live}
        for channel in wait(list(speaking), timeout=LISTEN_SECONDS):
            self._hear(speaking[channel])  # type: ignore[index]

    def _hear(self, worker: _Worker) -> None:
        try:
            kind, value = pickle.loads(worker.channel.recv_bytes())
            if kind == "idle":
                self._deal(worker)
        except (EOFError, OSError) as e:
            self.live.remove(worker)
            if not (worker.released or self._stopping):
                raise worker.death() from e
            return
        if kind == "progress":
            worker.progress = value
            self._tell(worker, value)
        elif kind == "failed" and not self._stopping:
            raise value
        else:
            worker.progress = None if kind == "results" else worker.progress
            hear(self._ledger, kind, value)

    def _deal(self, worker: _Worker) -> None:
        """Give an idle worker its next share; without one, tell it to end."""
        specs = self._taken(worker)
        if not specs:
            worker.released = True
            worker.channel.send_bytes(pickle.dumps(None))
            return
        if not worker.ready:
            worker.ready = True
            worker.channel.send_bytes(self._message)
        worker.spec = specs[0]
        worker.channel.send_bytes(pickle.dumps((specs, own_rows(specs, self._begun))))

    def _taken(self, worker: _Worker) -> list[RunSpec]:
        """The next share of which something is left to train; empty: there is none."""
        while self._waiting and not self._stopping:
            if specs := self._take(self._waiting.pop(self._next(worker))):
                return specs
        return []

    def _next(self, worker: _Worker) -> int:
        """One for which φ is known to this worker, else one of a γ that no other worker is at."""
        mine = _place(worker.spec)
        taken = {_place(w.spec) for w in self.live}
        places = [_place(specs[0]) for specs in self._waiting]
        return min(range(len(places)), key=lambda i: (places[i] != mine, places[i] in taken, i))

    def _tell(self, worker: _Worker, p: Progress) -> None:
        if not self._stopping:
            tell_of_all(self._ledger, p, [w.progress for w in self.live if w is not worker])

    def stop(self) -> None:
        """End every worker after its current step, and keep the states that they send."""
        self._stopping = True
        for worker in self.live:
            worker.process.terminate()
        while self.live:
            self.listen()

    def end(self) -> None:
        """Leave no process behind."""
        for worker in self.live:
            worker.process.kill()
        for worker in self._all:
            worker.process.join(END_SECONDS)
            worker.process.kill()
            worker.process.join()
            worker.process.close()
            worker.channel.close()


def _place(spec: RunSpec | None) -> tuple[str, float] | None:
    return None if spec is None else (spec.dataset, spec.gamma)


@contextmanager
def _without_sigint() -> Iterator[None]:
    """Processes started here know no Ctrl-C, from their first moment: the parent tells them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # to start it later would change the mask
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# --- in a worker ----------------------------------------------------------------------------------


def _work(channel: Connection, place: Place) -> None:
    """Train the shares that come through `channel`, one after another."""
    parent = _Parent(channel)
    signal.signal(signal.SIGTERM, parent.asks_to_stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=end_with_parent, daemon=True).start()
    code = 0
    try:
        _train_what_comes(parent, place)
    except SystemExit:
        code = 128 + signal.SIGTERM
    except Exception as e:
        parent.say("failed", worker_error(e))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # to take torch apart in good order takes seconds


def _train_what_comes(parent: _Parent, place: Place) -> None:
    parent.say("idle")
    told = parent.hear()
    if told is None:
        return
    told = told.at(place.device, place.memory)
    parent.keeps = told.keeps
    with told.followed():
        while (share := parent.hear()) is not None:
            specs, begun = share
            train_share(specs, told.inputs, told.settings, parent, begun)
            parent.say("idle")


class _Parent(Speaker):
    """The parent, at the other end of a pipe."""

    def __init__(self, channel: Connection) -> None:
        super().__init__(self.say)
        self._channel = channel
        self._speaking = self._asked = False

    def asks_to_stop(self, number: int, _: FrameType | None) -> None:
        """What SIGTERM does: it ends this process, but never in the middle of a message."""
        self._asked = True
        if not self._speaking:
            raise SystemExit(128 + number)

    def say(self, kind: str, value: Any = None) -> None:
        """Send a message whole."""
        message = pickle.dumps((kind, value))
        asked, self._speaking = self._asked, True
        try:
            self._channel.send_bytes(message)
        finally:
            self._speaking = False
        if self._asked and not asked:
            raise SystemExit(128 + signal.SIGTERM)

    def hear(self) -> Any:
        """The next message; None when there is nothing left to train."""
        return pickle.loads(self._channel.recv_bytes())


def end_with_parent() -> None:
    """End this process at once when the parent is gone: nobody is left to keep what it does."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
