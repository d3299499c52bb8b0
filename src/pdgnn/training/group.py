"""Runs of one shape, and the step that trains and evaluates all of them at once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F  # noqa: N812
from torch.nn.parameter import is_lazy

from pdgnn.errors import InputError
from pdgnn.models import Model, seeded
from pdgnn.nn.backbone import SeededModule
from pdgnn.nn.features import compact_features
from pdgnn.training.inputs import first_layer_work, stacked_inputs
from pdgnn.training.metrics import scores
from pdgnn.training.optimizer import Optimizer, parameter_groups
from pdgnn.training.spec import RunResult, RunSpec
from pdgnn.training.state import (
    Row,
    RunState,
    StackedParameters,
    flat_parameters,
    stacked_buffers,
    trained_parameters,
    views,
)
from pdgnn.training.task import Task
from pdgnn.training.traced import traced, value_of
from pdgnn.training.vmapped import of_single_run, over_runs

__all__ = ["KEEPS", "Group", "dtype_of", "matmul_precision"]

KEEPS = ("logits", "weights")
"""What a result may carry of its best validation step."""
THREAD_WORK = 1 << 20
"""Multiplications of a layer that one more thread is worth."""
NEVER = 2**62
"""Steps that no run takes."""


class Group:
    """R runs that share a graph, a model and its shape, and may differ in all else.

    The module is applied under vmap to the stacked parameters and buffers; inputs that are the same
    for all runs (features, edges, weights where α and γ agree) are held once.
    """

    def __init__(
        self,
        specs: Sequence[RunSpec],
        model: Model,
        task: Task,
        inputs: Sequence[Mapping[str, Any]],
        *,
        device: torch.device,
        curves: bool = False,
        keep: Sequence[str] = (),
        begun: Sequence[Row | None] = (),
        recompute: bool = False,
        at_once: bool | None = None,
    ) -> None:
        """Args:
        specs: The runs, as :func:`~pdgnn.training.spec.resolved` gives them.
        model: Their model.
        task: Their data.
        inputs: What the module of each run is called with; the same object where they share it.
        device: Where they train.
        curves: Whether to keep loss and scores of every step.
        keep: Which of :data:`KEEPS` to keep of the best step.
        begun: The states of runs to go on with.
        recompute: Whether the backward pass computes each layer again, of which only the input is
            kept; for modules that can do so.
        at_once: Whether to use vmap; default: unless it is a single run on the CPU, where vmap
            costs time. A GPU replays what was captured.
        """
        self.specs, self.device, self.model = list(specs), device, model
        self.whole = True  # whether the state is that between two steps
        first, self._precision, dtype = specs[0], specs[0].precision, dtype_of(specs[0])
        x = compact_features(task.x.to(dtype)) if model.sparse else task.x.to(dtype)
        given = [{"x": x, **own} for own in inputs]
        self._shared, self._mapped = stacked_inputs(given, device, dtype)
        self._at_once = len(specs) > 1 or device.type != "cpu" if at_once is None else at_once
        modules, index = _modules(model, task, specs, given)
        self.work = first_layer_work(given[0], first.width)
        at = torch.tensor(index, device=device)
        buffers = {n: t.to(device)[at] for n, t in stacked_buffers(modules, dtype).items()}
        rows = flat_parameters(modules).to(device, dtype)
        self.module = modules[0].to(device, dtype)
        new = RunState.new(
            rows if index == list(range(len(rows))) else rows[at],
            buffers,
            curve_steps=first.steps if curves else 0,
            logits=(len(task.y), task.out_channels) if "logits" in keep else None,
            weights="weights" in keep,
        )
        self.state = new.going_on(begun)
        self._shapes = {name: p.shape for name, p in trained_parameters(self.module).items()}
        self._own = isinstance(self.module, SeededModule)
        self._taken = int(new.step.max())
        if isinstance(self.module, SeededModule):
            self.module.recompute = recompute
        narrow = torch.bfloat16 if self._precision == "bfloat16" and self._own else None
        self._parameters = StackedParameters(
            self.state.parameters, self.module, narrow=narrow, wide=getattr(self.module, "wide", ())
        )
        self._groups, rates = parameter_groups(model, specs, list(self._shapes))
        coupled = [model.coupled(spec) for spec in specs]
        self._optimizer = Optimizer(self.state, rates.to(device), coupled=coupled)
        self._prepare_scores(task, dtype)

    def _prepare_scores(self, task: Task, dtype: torch.dtype) -> None:
        """Whatever of loss and scores is the same at every step is made once."""
        specs, device = self.specs, self.device
        masks = torch.stack([task.masks[spec.split] for spec in specs])  # [R, 3, N]
        self._metric = task.metric
        self._y = task.y.to(device)
        self._train = masks[:, 0].to(device)
        self._held_out = masks[:, 1:].to(device)
        self._target = self._y.clamp(min=0)  # [N]
        self._logits_shape = (len(task.y), task.out_channels)
        self._binary, self._positive = task.out_channels == 1, self._target.to(dtype)
        found = [task.weights(spec.split) for spec in specs]
        self._class_weights = None
        share = self._train  # [R, N], what each node counts in the loss
        if any(w is not None for w in found):
            weights = torch.stack([w for w in found if w is not None]).to(device, dtype)
            self._class_weights = weights  # [R, classes]
            share = torch.where(self._train, weights[:, self._target], 0)
        self._share, self._total = share, share.sum(dim=1)  # [R, N], [R]
        own = self.model.loss
        self._weighted = own is not None and "weight" in signature(own).parameters
        self._ones = torch.ones_like(self.state.loss)
        self._zero = self._ones.new_zeros(())
        self._steps = torch.tensor([spec.steps for spec in specs], device=device)
        patience = [min(spec.patience or NEVER, NEVER) for spec in specs]
        self._patience = torch.tensor(patience, device=device)

    def train_step(self) -> None:
        """Train every run for one step, evaluate it, and keep its best.

        A run that has ended keeps its parameters, its scores and what was best; its buffers and
        moments go on, unused. Nothing here waits for the device.
        """
        self.whole = False
        state, running = self.state, self.running()
        state.step += running
        with matmul_precision(self._precision), self._drawing():
            self.module.train()
            loss = self._loss()  # [R]
            grads = torch.autograd.grad(
                loss,
                list(self._parameters.by_name.values()),
                self._ones,
                allow_unused=not self._own,
                materialize_grads=not self._own,
            )
            with torch.no_grad():
                parts = self._parameters.side_by_side(grads, self._groups)
                self._optimizer.step(parts, running)
                self._parameters.follow()
                logits = self.evaluate()
                found = scores(logits, self._y, self._held_out, self._metric)
                self._keep(loss.detach(), found, logits, running)
        self.whole = True

    def _drawing(self) -> AbstractContextManager[None]:
        """On a CPU what torch draws is a function of the first run's seed and step alone.

        The package's own modules draw nothing from torch's generators.
        """
        if self._own or self.device.type != "cpu":
            return nullcontext()
        self._taken += 1
        text = f"{self.specs[0].seed} {self._taken}"
        return seeded(int.from_bytes(hashlib.blake2b(text.encode(), digest_size=7).digest()))

    @property
    def threads(self) -> int:
        """Threads of a CPU that its work keeps busy."""
        return max(1, self.work // THREAD_WORK)

    def running(self) -> Tensor:
        """The runs that have steps and patience left, and a loss that is finite, ``[R]``."""
        state = self.state
        last = torch.minimum(self._steps, state.best_step + self._patience)
        return (state.step < last) & (state.diverged_at == 0)

    def steps_left(self) -> Tensor:
        """The steps that each run still goes on, should its patience hold, ``[R]``."""
        return torch.where(self.running(), self._steps - self.state.step, 0)

    def results(self) -> list[RunResult]:
        """What each run has come to."""
        small = ("best", "best_step", "step", "seconds", "diverged_at", "curves", "best_logits")
        kept = {name: getattr(self.state, name).cpu() for name in small}
        weights = self._best_weights() or [None] * len(self.specs)
        return [
            _result(spec, {name: t[i] for name, t in kept.items()}, weights[i])
            for i, spec in enumerate(self.specs)
        ]

    def _best_weights(self) -> list[dict[str, Tensor] | None]:
        """The state_dict of each run's module at its best step, if it was kept."""
        state = self.state
        if not state.best_parameters.numel():
            return []
        found = {**views(state.best_parameters.cpu(), self._shapes)}
        found |= {name: t.cpu() for name, t in state.best_buffers.items()}
        names = [name for name in self.module.state_dict() if name in found]
        return [{n: found[n][i].clone() for n in names} for i in range(len(self.specs))]

    def evaluate(self) -> Tensor:
        """The logits of all runs as they are now, ``[R, N, out]``."""
        self.module.eval()
        with torch.no_grad(), matmul_precision(self._precision):
            return self._logits()

    def _logits(self) -> Tensor:
        """What the modules return as logits, ``[R, N, out]``, in float32 at least."""
        outputs = self._over_runs(self._outputs, *self._run_values())
        found = outputs.get("logits") if isinstance(outputs, Mapping) else outputs
        if not isinstance(found, Tensor) or found.shape[1:] != self._logits_shape:
            shape = tuple(found.shape[1:]) if isinstance(found, Tensor) else None
            returned = shape or type(outputs).__name__
            raise InputError(
                f"the module of the model {self.specs[0].model!r} must return logits "
                f"{self._logits_shape}, nodes by classes (one column for two classes), or a dict "
                f"that has them; it returned {returned}"
            )
        return found if found.dtype == torch.float64 else found.float()

    def _run_values(self) -> tuple[dict[str, Tensor], ...]:
        """What differs between runs, ``[R, ...]``."""
        return self._parameters.by_name, self.state.buffers, self._mapped

    def _outputs(
        self, parameters: dict[str, Tensor], buffers: dict[str, Tensor], mapped: dict[str, Tensor]
    ) -> Any:
        """What the module of one run returns."""
        given = {**self._shared, **mapped}
        x = given.pop("x")
        with self._autocast():
            return functional_call(self.module, {**parameters, **buffers}, (x,), given)

    def _autocast(self) -> Any:
        """bfloat16 for modules that do not know of it themselves."""
        if self._precision != "bfloat16" or self._own:
            return nullcontext()
        return torch.autocast(self.device.type, torch.bfloat16, cache_enabled=False)

    def _over_runs(self, function: Callable[..., Any], *values: Any) -> Any:
        """`function` of one run's values, for all runs: ``[R, ...]`` to ``[R, ...]``."""
        if not self._at_once:
            return of_single_run(function, *values)
        return over_runs(function, *values, module=self.module, name=self.specs[0].model)

    def _loss(self) -> Tensor:
        """The loss of each run, ``[R]``."""
        own = self.model.loss
        if own is None:
            return self._usual_loss(self._logits())

        def of_one(values: Any, train: Tensor, step: Tensor, weights: dict[str, Tensor]) -> Tensor:
            extra = {"weight": weights.get("weight")} if self._weighted else {}
            loss: Tensor = own(self._outputs(*values), self._target, train, step, **extra)
            return loss

        weights = {} if self._class_weights is None else {"weight": self._class_weights}
        found = self._over_runs(of_one, self._run_values(), self._train, self.state.step, weights)
        if not isinstance(found, Tensor) or found.shape != self._ones.shape:
            raise InputError(f"the loss of {self.specs[0].model!r} must be one number, a tensor")
        return found.to(self._ones.dtype)

    def _usual_loss(self, logits: Tensor) -> Tensor:
        """The mean (binary) cross entropy over each run's training nodes, by class weights."""
        if self._binary:
            wanted = self._positive.expand(logits.shape[:2])
            each = F.binary_cross_entropy_with_logits(logits.squeeze(-1), wanted, reduction="none")
        else:
            target = self._target.expand(logits.shape[:2])
            each = F.cross_entropy(logits.transpose(1, 2), target, reduction="none")
        if self._class_weights is not None:
            each = each * self._share
        each = torch.where(self._train, each, self._zero)  # [R, N]
        return each.sum(dim=1) / self._total

    def _keep(self, loss: Tensor, found: Tensor, logits: Tensor, running: Tensor) -> None:
        state = self.state
        better = running & (found[:, 0] > state.best[:, 0].nan_to_num(nan=-1.0))
        broken = running & (0 * loss).isnan()  # of inf as of nan
        kept = [
            (state.loss, running, loss),
            (state.score, running, found),
            (state.best, better, found),
            (state.best_step, better, state.step),
            (state.diverged_at, broken, state.step),
        ]
        if state.best_logits.numel():
            kept.append((state.best_logits, better, logits))
        if state.best_parameters.numel():
            kept.append((state.best_parameters, better, state.parameters))
            kept += [(best, better, state.buffers[n]) for n, best in state.best_buffers.items()]
        for before, when, now in kept:
            where = when.view(-1, *[1] * (now.ndim - 1))
            torch.where(where, now.to(before.dtype), before, out=before)
        if state.curves.shape[1]:
            row = torch.cat([loss[:, None], found], dim=1)[:, None].float()  # [R, 1, 3]
            at = (state.step - 1)[:, None, None].expand(-1, 1, 3)
            before = state.curves.gather(1, at)  # a run that has ended keeps its last row
            state.curves.scatter_(1, at, torch.where(running[:, None, None], row, before))


def dtype_of(spec: RunSpec) -> torch.dtype:
    """What the parameters and the inputs of a run are kept in."""
    return torch.float64 if spec.precision == "float64" else torch.float32


def _modules(
    model: Model, task: Task, specs: Sequence[RunSpec], given: Sequence[Mapping[str, Any]]
) -> tuple[list[nn.Module], list[int]]:
    """The modules of these runs, and which of them each run has.

    Runs that agree in all that ``model.build`` reads have one: a grid of α and γ has as many as it
    has seeds, and to draw their parameters is most of the time before the first step.
    """
    modules, index = list[nn.Module](), list[int]()
    known: list[dict[str, Any]] = []  # what each was built from; nothing: it is of one run alone
    for spec, own in zip(specs, given, strict=True):
        found = [i for i, depends in enumerate(known) if depends and _agrees(spec, depends)]
        if not found:
            noted, seen = traced(spec)
            modules.append(model.make(task.size, noted))
            shared = not any(is_lazy(p) for p in modules[-1].parameters())
            known.append({name: value_of(spec, name) for name in seen} if shared else {})
            _complete(modules[-1], spec, own)
        index.append(found[0] if found else len(modules) - 1)
    return modules, index


def _agrees(spec: RunSpec, depends: Mapping[str, Any]) -> bool:
    return all(value_of(spec, name) == value for name, value in depends.items())


def _complete(module: nn.Module, spec: RunSpec, given: Mapping[str, Any]) -> None:
    """Have all parameters there: those of lazy modules see their shape at the first call."""
    if any(is_lazy(p) for p in module.parameters()):
        rest = {name: value for name, value in given.items() if name != "x"}
        with seeded(spec.seed), torch.no_grad():
            module.eval()(given["x"], **rest)
    if not trained_parameters(module):
        raise InputError(f"the module of the model {spec.model!r} has no parameters to train")


def _result(spec: RunSpec, row: dict[str, Tensor], weights: dict[str, Tensor] | None) -> RunResult:
    val, test = row["best"].tolist()
    taken, best, curves, logits = int(row["step"]), int(row["best_step"]), row["curves"], None
    if best and row["best_logits"].numel():
        logits = row["best_logits"].clone()
    return RunResult(
        spec,
        val=val,
        test=test,
        step=best,
        steps_run=taken,
        seconds=float(row["seconds"]),
        diverged_at=int(row["diverged_at"]) or None,
        curves=curves[:taken].numpy().copy() if len(curves) else None,
        logits=logits,
        weights=weights if best else None,
    )


@contextmanager
def matmul_precision(name: str) -> Iterator[None]:
    """Matrix products, also those of backward passes, in TF32 (where there is such) or not.

    torch keeps this for the whole process; it is put back at the end.
    """
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if name == "tf32" else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
