"""Runs trained by a Ray cluster: a share is a task, on whatever node has room for it.

Only this process, the driver, reads and writes what is kept. Workers say how they go through a
queue, an actor on the driver's node: progress, states now and then, and results as they come. A
task that is lost with its worker or node is given to another, from the last state that was heard.
What a lost attempt says later is not heard, so that no run counts twice.

Ray pickles with cloudpickle: models may be lambdas. The nodes need the same pdgnn.
"""

from __future__ import annotations

import logging
import os
import pickle
import signal
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib import import_module
from itertools import count
from typing import Any

import torch

import pdgnn
from pdgnn.errors import InputError, check_whole
from pdgnn.training.engines import Job
from pdgnn.training.engines.devices import spread
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
from pdgnn.training.state import Row

__all__ = ["RayEngine"]

LISTEN_SECONDS = 0.2
"""How long a signal to stop may wait."""
END_SECONDS = 15.0
"""How long tasks may take to end, and to hand over their states, after they were cancelled."""


class RayEngine:
    """A Ray cluster, of this machine or of many.

    Args:
        address: ``"auto"`` (the cluster that this machine is a node of), ``"host:port"`` or
            ``"ray://host:port"``. Default: the one that RAY_ADDRESS names, else a cluster of this
            machine alone, for as long as the engine lives.
        workers_per_gpu: Groups that share a GPU. On the CPU a group takes one core and one thread.
        retries: How often a share whose worker or node was lost is tried again.
    """

    elsewhere = True
    """The devices are those of the nodes; this machine needs none."""

    def __init__(
        self, address: str | None = None, *, workers_per_gpu: int = 1, retries: int = 3
    ) -> None:
        self.address = address
        self.workers_per_gpu = check_whole("workers_per_gpu", workers_per_gpu)
        self.retries = check_whole("retries", retries, 0)
        self._leave: Callable[[], Any] | None = None

    def train(self, job: Job) -> None:
        """Train every share to its end.

        Signals to stop, and errors, cancel the tasks after their step under way; their states are
        kept. A second signal does not wait.
        """
        ray = _import_ray()
        self._join(ray)
        driver = _Driver(ray, job, self)
        with signals_between_steps() as between:
            try:
                driver.deal()
                while driver.running:
                    between()
                    driver.listen()
                    driver.deal()
            except BaseException:
                driver.stop()
                raise
            finally:
                driver.close()

    def _join(self, ray: Any) -> None:
        """Join the cluster, for as long as this engine lives; one that the caller has joined stays.

        So a search in many stages starts its workers once.
        """
        if not ray.is_initialized():
            _join(ray, self.address)
            self._leave = weakref.finalize(self, ray.shutdown)

    def close(self) -> None:
        """Leave the cluster if this engine has joined it; one of this machine ends."""
        if self._leave is not None:
            self._leave()
            self._leave = None


@cache
def _import_ray() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # what a task without GPUs sees of them: all, in the versions of Ray to come
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        return import_module("ray")
    except ImportError as e:
        raise InputError(
            f"the engine 'ray' needs Ray ({e}); install it with: pip install 'pdgnn[ray]'"
        ) from e


def _join(ray: Any, address: str | None) -> None:
    local = address is None and not os.environ.get("RAY_ADDRESS")
    own = {"include_dashboard": False} if local else {}
    try:
        with _own_sigterm():
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **own)
    except (ConnectionError, ImportError, ValueError, RuntimeError) as e:
        said = str(e).strip().partition("\n")[0][:200]
        raise InputError(
            f"cannot join the Ray cluster {address or 'of this machine'}: {said}; "
            "see docs/cluster.md for how to start one"
        ) from e


@contextmanager
def _own_sigterm() -> Iterator[None]:
    """Restore the handler of SIGTERM afterwards, which ``ray.init`` replaces."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@dataclass(eq=False)
class _Share:
    """Runs that are a task, as the driver sees them."""

    specs: list[RunSpec]
    begun: dict[str, Row]  # their last states, by key
    attempt: int = -1  # the number of the task; each has its own
    losses: int = 0
    progress: Progress | None = field(default=None)

    def note(self, kind: str, value: Any) -> None:
        """Remember states and progress, to resubmit the share and to sum up the progress of all."""
        if kind == "state":
            specs, state = value
            tensors = state.tensors()
            for i, spec in enumerate(specs):
                self.begun[spec.key] = {name: t[i] for name, t in tensors.items()}
        elif kind == "results":
            self.progress = None
            for result in value:
                self.begun.pop(result.spec.key, None)
        elif kind == "progress":
            self.progress = value


class _Driver:
    """The tasks under way, and the shares that wait."""

    def __init__(self, ray: Any, job: Job, engine: RayEngine) -> None:
        self._ray, self._ledger, self._begun = ray, job.ledger, job.begun
        self._take = job.take
        self._engine, self._gpu = engine, job.settings.device.type == "cuda"
        self.running: dict[Any, _Share] = {}
        self._stopping, self._attempts = False, count()
        slots = self._slots()
        if not slots:
            raise InputError(
                f"the Ray cluster has no {'GPU' if self._gpu else 'CPU'} for tasks; "
                "start nodes that have some"
            )
        self._waiting = spread(job.shares, job.settings, slots if self._gpu else 1)
        share = 1 / engine.workers_per_gpu
        device = torch.device("cuda") if self._gpu else job.settings.device  # the task's own GPU
        self._told = _put(ray, Briefing.of(job, keeps=True).at(device, share if self._gpu else 1.0))
        gpus = {"num_gpus": share} if self._gpu else {}
        self._task = ray.remote(_work).options(num_cpus=1, max_retries=0, **gpus)
        self._queue = _queue_here(ray)

    def _slots(self) -> int:
        """How many tasks the cluster has room for at present."""
        there = self._ray.cluster_resources()
        cpus = int(there.get("CPU", 0))
        return (
            min(cpus, int(there.get("GPU", 0) * self._engine.workers_per_gpu))
            if self._gpu
            else cpus
        )

    def deal(self) -> None:
        """Submit tasks until the cluster is full, and one more, so that no node is idle in between.

        The others are left to whoever trains into the same store.
        """
        most = self._slots() + 1 if self._waiting else 0
        while self._waiting and len(self.running) < most:
            if specs := self._take(self._waiting.pop(0)):
                self._submit(_Share(specs, own_rows(specs, self._begun)))

    def _submit(self, share: _Share) -> None:
        share.attempt = next(self._attempts)
        work = pickle.dumps((share.specs, own_rows(share.specs, share.begun)))
        # in a list, as Ray would else hand over what it stands for, anew for every task
        ref = self._task.remote(pdgnn.__version__, [self._told], work, share.attempt, self._queue)
        self.running[ref] = share

    def listen(self) -> None:
        """Wait a moment; handle the messages of workers, then the tasks that have ended."""
        ended, _ = self._ray.wait(list(self.running), timeout=LISTEN_SECONDS)
        self._hear()
        for ref in ended:
            self._end(ref)

    def _hear(self) -> None:
        current = {share.attempt: share for share in self.running.values()}
        for attempt, message in _all_of(self._queue):
            if attempt not in current:
                continue  # of one that was taken for lost
            kind, value = pickle.loads(message)
            current[attempt].note(kind, value)
            hear(self._ledger, kind, value)
            if kind == "progress" and not self._stopping:
                others = [s.progress for a, s in current.items() if a != attempt]
                tell_of_all(self._ledger, value, others)

    def _end(self, ref: Any) -> None:
        share, errors = self.running.pop(ref), self._ray.exceptions
        try:
            error = self._ray.get(ref)
        except errors.RayTaskError as e:  # before our own code began
            raise _cannot_train(e) from e
        except errors.RayError as e:
            self._again(share, e)
            return
        if error is not None:
            raise error

    def _again(self, share: _Share, error: Exception) -> None:
        """Resubmit the unfinished runs of a share whose worker or node was lost."""
        share.specs = self._unfinished(share)
        share.losses, share.progress = share.losses + 1, None
        if not share.specs:
            return
        if share.losses > self._engine.retries:
            spec = share.specs[0]
            raise InputError(
                f"every worker that trained {spec.model} on {spec.dataset} was lost, "
                f"{share.losses} in all ({_last_line(error)}); if there was not enough memory, let "
                "fewer groups share a node"
            )
        self._submit(share)

    def _unfinished(self, share: _Share) -> list[RunSpec]:
        return [spec for spec in share.specs if spec.key not in self._ledger.results]

    def stop(self) -> None:
        """Cancel every task after its current step, and keep the states that they send."""
        self._stopping = True
        with suppress(self._ray.exceptions.RayError):  # a cluster that is gone
            for ref in self.running:
                self._ray.cancel(ref)
            until = time.monotonic() + END_SECONDS
            while self.running and time.monotonic() < until:
                ended, _ = self._ray.wait(list(self.running), timeout=LISTEN_SECONDS)
                self._hear()
                for ref in ended:
                    del self.running[ref]
            for ref in self.running:
                self._ray.cancel(ref, force=True)

    def close(self) -> None:
        """Remove the queue from the cluster."""
        with suppress(self._ray.exceptions.RayError):
            self._queue.shutdown(force=True)


def _put(ray: Any, briefing: Briefing) -> Any:
    """What every worker is told, once for the whole cluster."""
    try:
        return ray.put(briefing)
    except (pickle.PicklingError, AttributeError, TypeError) as e:
        raise InputError(f"a model cannot be sent to a Ray cluster: {_last_line(e)}") from e


def _queue_here(ray: Any) -> Any:
    """A queue that lives as long as the driver's node."""
    from ray.util.queue import Queue
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    node = ray.get_runtime_context().get_node_id()
    here = NodeAffinitySchedulingStrategy(node_id=node, soft=False)
    return Queue(actor_options={"num_cpus": 0, "scheduling_strategy": here})


def _all_of(queue: Any) -> list[Any]:
    """All that is in the queue; nobody else takes from it."""
    waiting = queue.size()
    return list(queue.get_nowait_batch(waiting)) if waiting else []


def _cannot_train(error: Exception) -> InputError:
    return InputError(
        f"a node of the Ray cluster cannot train ({_last_line(error)}); "
        "install the same pdgnn and the modules of your models on every node"
    )


def _last_line(error: Exception) -> str:
    return str(error).strip().rpartition("\n")[2][:200]


# --- in a worker ----------------------------------------------------------------------------------


def _work(version: str, told: list[Any], work: bytes, attempt: int, queue: Any) -> Exception | None:
    """Train a share and say all that comes of it; the error that ended it, if there was one."""

    def say(kind: str, value: Any) -> None:
        queue.put((attempt, pickle.dumps((kind, value))))

    try:
        if version != pdgnn.__version__:
            raise InputError(
                f"a node of the Ray cluster has pdgnn {pdgnn.__version__}, the driver {version}; "
                "install the same on every node"
            )
        briefing = _briefing(told[0])
        specs, begun = pickle.loads(work)
        with briefing.followed():
            speaker = Speaker(say, keeps=briefing.keeps)
            train_share(specs, briefing.inputs, briefing.settings, speaker, begun)
    except Exception as e:
        return worker_error(e)
    return None


@lru_cache(maxsize=1)
def _briefing(ref: Any) -> Briefing:
    """Kept from one task to the next, as inputs such as φ are made once for many."""
    ray = _import_ray()
    try:
        found: Briefing = ray.get(ref)
    except ray.exceptions.RaySystemError as e:  # what it is made of cannot be imported here
        raise _cannot_train(e) from e
    return found
