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
import traceback
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from types import FrameType
from typing import Any

import torch

from pdgnn.errors import InputError, PdgnnError, check_whole
from pdgnn.ops import backends
from pdgnn.training.engines import Job
from pdgnn.training.group import Group
from pdgnn.training.inputs import InputCache
from pdgnn.training.loop import Progress, signals_between_steps
from pdgnn.training.share import train_share
from pdgnn.training.spec import RunResult, RunSpec
from pdgnn.training.state import RunState

__all__ = ["Processes"]

LISTEN_SECONDS = 0.2
"""How long a signal to stop may wait while no worker has anything to say."""
END_SECONDS = 10.0
"""How long a worker may take to end after its last word."""
AS_THEY_ARE = (PdgnnError, OSError, MemoryError)
"""Errors that say enough without a traceback."""


class Processes:
    """So many processes on this machine, of one thread each."""

    def __init__(self, workers: int) -> None:
        self.workers = check_whole("workers", workers)

    def train(self, job: Job) -> None:
        """Train every share to its end.

        Signals to stop, and errors, end each worker after its step under way; its state is kept. A
        second signal does not wait.
        """
        workers = min(self.workers, len(job.shares))
        pool = WorkerPool(job, _message(job, workers))
        with signals_between_steps() as between:
            try:
                pool.start(workers)
                while pool.live:
                    between()
                    pool.listen()
            except BaseException:
                pool.stop()
                raise
            finally:
                pool.end()


def _message(job: Job, workers: int) -> bytes:
    """What every worker is told before its first share."""
    inputs, ledger = job.inputs, job.ledger
    names = {spec.dataset for specs in job.shares for spec in specs}
    own = InputCache({name: inputs.tasks[name] for name in names}, inputs.models)
    each = replace(job.settings, memory=job.settings.memory / max(1, workers))
    try:
        return pickle.dumps((own, each, ledger.folder is not None, list(backends._forced)))
    except (pickle.PicklingError, AttributeError, TypeError) as e:
        if not inputs.models:
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
                f"a worker process {how} before it began; a script must call train(workers=...) "
                'under `if __name__ == "__main__":`, as each worker imports it'
            )
        return InputError(
            f"a worker process {how} while it trained {self.spec.model} on {self.spec.dataset}; if "
            "there was not enough memory, take fewer workers"
        )


class WorkerPool:
    """The workers as the parent sees them, and the runs that wait for one."""

    def __init__(self, job: Job, message: bytes) -> None:
        self._ledger, self._waiting, self._begun = job.ledger, list(job.shares), job.begun
        self._all: list[_Worker] = []
        self.live: list[_Worker] = []  # those that may still say something
        self._stopping = False
        self._message = message

    def start(self, count: int) -> None:
        """Start the processes, none of which waits for another."""
        context = multiprocessing.get_context("spawn")
        for _ in range(count):
            mine, theirs = context.Pipe()
            process = context.Process(target=_work, args=(theirs,), daemon=True)
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
        if kind == "results":
            worker.progress = None
            self._ledger.add_results(value)
        elif kind == "state":
            self._ledger.save_state(*value)
        elif kind == "progress":
            worker.progress = value
            self._tell(worker, value)
        elif kind == "failed" and not self._stopping:
            raise value

    def _deal(self, worker: _Worker) -> None:
        """Give an idle worker its next share, or let it go."""
        specs = self._taken(worker)
        if not specs:
            worker.released = True
            worker.channel.send_bytes(pickle.dumps(None))
            return
        if not worker.ready:
            worker.ready = True
            worker.channel.send_bytes(self._message)
        worker.spec, begun = specs[0], self._begun
        rows = {  # views: alone they are less to send
            spec.key: {name: t.clone() for name, t in begun[spec.key].items()}
            for spec in specs
            if spec.key in begun
        }
        worker.channel.send_bytes(pickle.dumps((specs, rows)))

    def _taken(self, worker: _Worker) -> list[RunSpec]:
        """The next share of which something is left to train; empty: there is none."""
        while self._waiting and not self._stopping:
            if specs := self._ledger.take(self._waiting.pop(self._next(worker))):
                return specs
        return []

    def _next(self, worker: _Worker) -> int:
        """One for which φ is known to this worker, else one of a γ that no other worker is at."""
        mine = _place(worker.spec)
        taken = {_place(w.spec) for w in self.live}
        places = [_place(specs[0]) for specs in self._waiting]
        return min(range(len(places)), key=lambda i: (places[i] != mine, places[i] in taken, i))

    def _tell(self, worker: _Worker, p: Progress) -> None:
        """How far all of them are together; the step is the mean, of runs as long as this one."""
        if self._ledger.tell is None or self._stopping:
            return
        others = [w.progress for w in self.live if w is not worker]
        all_ = [p, *(other for other in others if other is not None)]
        share = sum(q.step / q.steps for q in all_) / len(all_)
        together = replace(
            p,
            runs_done=len(self._ledger.results),
            runs=self._ledger.total,
            specs=[spec for q in all_ for spec in q.specs],
            step=round(share * p.steps),
            val=[v for q in all_ for v in q.val],
            test=[v for q in all_ for v in q.test],
        )
        self._ledger.tell(together)

    def stop(self) -> None:
        """Have every worker end after its step under way, and keep what it has."""
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


def _work(channel: Connection) -> None:
    """Train the shares that come through `channel`, one after another."""
    parent = _Parent(channel)
    signal.signal(signal.SIGTERM, parent.asks_to_stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    code = 0
    try:
        _train_what_comes(parent)
    except AS_THEY_ARE as e:
        parent.say("failed", e)
    except SystemExit:
        code = 128 + signal.SIGTERM
    except Exception:
        parent.say("failed", RuntimeError(f"in a worker process:\n{traceback.format_exc()}"))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # to take torch apart in good order takes seconds


def _train_what_comes(parent: _Parent) -> None:
    parent.say("idle")
    told = parent.hear()
    if told is None:
        return
    inputs, settings, parent.keeps, forced = told
    with ExitStack() as stack:
        for name in forced:
            stack.enter_context(backends.use_backend(name))
        while (share := parent.hear()) is not None:
            specs, begun = share
            train_share(specs, inputs, settings, parent, begun)
            parent.say("idle")


class _Parent:
    """The parent as a worker sees it: who keeps what comes of the runs."""

    def __init__(self, channel: Connection) -> None:
        self._channel = channel
        self._speaking = self._asked = self.keeps = False

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
        """The next message; None: there is no more to do."""
        return pickle.loads(self._channel.recv_bytes())

    def progress(self, group: Group, seconds: float) -> None:
        """Have it told."""
        self.say("progress", Progress.of(group, 0, 1, seconds))

    def save_state(self, specs: Sequence[RunSpec], state: RunState) -> None:
        """Have it kept, if there is a folder."""
        if self.keeps:
            self.say("state", (list(specs), state.to("cpu")))

    def add_results(self, results: Sequence[RunResult]) -> None:
        """Have these runs kept as finished."""
        self.say("results", results)


def _end_with_parent() -> None:
    """End this process at once when the parent is gone: nobody is left to keep what it does."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
