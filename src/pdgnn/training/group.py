"""Runs of one shape, and the step that trains and evaluates all of them at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.func import functional_call, vmap
from torch.nn import functional as F  # noqa: N812

from pdgnn.nn.backbone import Backbone
from pdgnn.nn.features import compact_features
from pdgnn.nn.inputs import GraphInputs
from pdgnn.nn.models import build
from pdgnn.nn.plain import Plain
from pdgnn.training.metrics import scores
from pdgnn.training.spec import RunResult, RunSpec
from pdgnn.training.state import AdamW, RunState, StackedParameters, flat_parameters
from pdgnn.training.task import Task

__all__ = ["Group", "dtype_of", "matmul_precision"]

THREAD_WORK = 1 << 20
"""Multiplications of a layer that one more thread is worth."""
NEVER = 2**62
"""Steps that no run takes."""


class Group:
    """R runs that share a graph, a model and its shape, and may differ in all else.

    The model is applied under vmap to the stacked parameters; what is the same for all runs (the
    features, the edges, weights where α and γ agree) is held once.
    """

    def __init__(
        self,
        specs: Sequence[RunSpec],
        task: Task,
        inputs: Sequence[GraphInputs],
        *,
        device: torch.device,
        curves: bool = False,
        begun: Sequence[dict[str, Tensor] | None] = (),
        recompute: bool = False,
    ) -> None:
        """`inputs` and `begun`, the states of runs to go on with, are those of each run.

        With `recompute` the backward pass computes each layer again, of which only the input is
        kept.
        """
        self.specs, self.device = list(specs), device
        self.whole = True  # whether the state is that between two steps
        first = specs[0]
        models = [_model(spec, task) for spec in specs]
        self._precision, dtype = first.precision, dtype_of(first)
        new = RunState.new(
            flat_parameters(models).to(dtype), curve_steps=first.steps if curves else 0
        )
        self.state = new.going_on(begun).to(device)
        self._model = models[0].to(device)
        self._model.recompute = recompute
        self._x = compact_features(task.x.to(dtype)).to(device)
        self._y = task.y.to(device)
        masks = torch.stack([task.masks[spec.split] for spec in specs])  # [R, 3, N]
        self._train = masks[:, 0].to(device)
        self._held_out = masks[:, 1:].to(device)
        # whatever is the same at every step is made once
        self._count = self._train.sum(dim=1)  # [R]
        self._target = self._y.clamp(min=0).to(dtype if task.out_channels == 1 else torch.int64)
        self._ones = torch.ones_like(self.state.loss)
        self._zero = self._ones.new_zeros(())
        self._edges = inputs[0].edges.to(device)
        self._weight = _stacked([i.edge_weight for i in inputs], device)
        self._attr = _stacked([i.edge_attr for i in inputs], device)
        rates = torch.tensor([(s.lr, s.weight_decay) for s in specs], dtype=torch.float64)
        self._adamw = AdamW(self.state, *rates.T.to(device))
        self._steps = torch.tensor([spec.steps for spec in specs], device=device)
        patience = [min(spec.patience or NEVER, NEVER) for spec in specs]
        self._patience = torch.tensor(patience, device=device)
        self._leaves = StackedParameters(
            self.state.parameters,
            self._model,
            narrow=torch.bfloat16 if first.precision == "bfloat16" else None,
            wide=self._model.wide,
        )
        # vmap costs time on the CPU; a GPU replays what was captured
        self._plain = len(specs) == 1 and device.type == "cpu"
        self._buffers = {
            "rate": torch.tensor([spec.dropout for spec in specs], device=device),
            "seed": torch.tensor([spec.seed for spec in specs], device=device),
        }

    def train_step(self) -> None:
        """Train every run for one step, evaluate it, and keep its best.

        A run that has ended stays as it is. Nothing here waits for the device.
        """
        self.whole = False
        state, running = self.state, self.running()
        state.step += running
        with matmul_precision(self._precision):
            # dropout numbers its masks by the step; the model counts on from what it is given
            logits = self._forward(state.step - 1, training=True)
            loss = self._loss(logits)  # [R]
            grads = torch.autograd.grad(loss, list(self._leaves.by_name.values()), self._ones)
            with torch.no_grad():
                self._adamw.step(self._leaves.side_by_side(grads), running)
                self._leaves.follow()
                found = scores(self._forward(state.step, training=False), self._y, self._held_out)
                self._keep(loss.detach(), found, running)
        self.whole = True

    @property
    def work(self) -> int:
        """Multiplications of one run's first layer: its features and its messages, about."""
        x = self._x
        entries = int(x.count_nonzero()) if isinstance(x, Tensor) else len(x.values)
        return (x.shape[0] + self._edges.num_edges + entries) * self.specs[0].width

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
        small = ("best", "best_step", "step", "seconds", "diverged_at", "curves")
        kept = {name: getattr(self.state, name).cpu() for name in small}
        return [
            _result(spec, {name: t[i] for name, t in kept.items()})
            for i, spec in enumerate(self.specs)
        ]

    def evaluate(self) -> Tensor:
        """The logits of all runs as they are now, ``[R, N, out]``."""
        with torch.no_grad(), matmul_precision(self._precision):
            return self._forward(self.state.step, training=False)

    def _forward(self, step: Tensor, *, training: bool) -> Tensor:
        model = self._model.train(training)
        buffers = {**self._buffers, "step": step}

        def one(
            parameters: dict[str, Tensor],
            buffers: dict[str, Tensor],
            weight: Tensor | None,
            attr: Tensor | None,
        ) -> Tensor:
            out: Tensor = functional_call(
                model, (parameters, buffers), (self._x, self._edges, weight, attr)
            )
            return out

        parameters, weight, attr = self._leaves.by_name, self._weight, self._attr
        if self._plain:
            logits = one(_only(parameters), _only(buffers), weight, attr)[None]
        else:
            dims = (0, 0, _dim(weight, 1), _dim(attr, 2))
            logits = vmap(one, in_dims=dims)(parameters, buffers, weight, attr)
        return logits if logits.dtype == torch.float64 else logits.float()

    def _loss(self, logits: Tensor) -> Tensor:
        """The mean loss over each run's training nodes, ``[R]``."""
        target = self._target.expand(logits.shape[:2])
        if logits.shape[-1] == 1:
            logits = logits.squeeze(-1)
            each = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
        else:
            each = F.cross_entropy(logits.transpose(1, 2), target, reduction="none")
        each = torch.where(self._train, each, self._zero)  # [R, N]
        return each.sum(dim=1) / self._count

    def _keep(self, loss: Tensor, found: Tensor, running: Tensor) -> None:
        state = self.state
        better = running & (found[:, 0] > state.best[:, 0].nan_to_num(nan=-1.0))
        broken = running & (0 * loss).isnan()  # of inf as of nan
        for kept, when, now in (
            (state.loss, running, loss),
            (state.score, running[:, None], found),
            (state.best, better[:, None], found),
            (state.best_step, better, state.step),
            (state.diverged_at, broken, state.step),
        ):
            torch.where(when, now, kept, out=kept)
        if state.curves.shape[1]:
            row = torch.cat([loss[:, None], found], dim=1)[:, None].float()  # [R, 1, 3]
            at = (state.step - 1)[:, None, None].expand(-1, 1, 3)
            before = state.curves.gather(1, at)  # a run that has ended keeps its last row
            state.curves.scatter_(1, at, torch.where(running[:, None, None], row, before))


def dtype_of(spec: RunSpec) -> torch.dtype:
    """What the parameters and the inputs of a run are kept in."""
    return torch.float64 if spec.precision == "float64" else torch.float32


def _model(spec: RunSpec, task: Task) -> Backbone | Plain:
    return build(
        spec.model,
        task.x.shape[1],
        task.out_channels,
        hidden_channels=spec.width,
        depth=spec.depth,
        heads=spec.heads,
        dropout=spec.dropout,
        seed=spec.seed,
    )


def _stacked(values: Sequence[Tensor | None], device: torch.device) -> Tensor | None:
    """One tensor for all runs where they share it, ``[E, ...]``; else ``[R, E, ...]``."""
    first = values[0]
    if first is None:
        return None
    if all(v is first for v in values):
        return first.to(device)
    return torch.stack([v for v in values if v is not None]).to(device)


def _only(values: dict[str, Tensor]) -> dict[str, Tensor]:
    """The values of a single run."""
    return {name: t.squeeze(0) for name, t in values.items()}


def _dim(values: Tensor | None, shared_ndim: int) -> int | None:
    return None if values is None or values.ndim == shared_ndim else 0


def _result(spec: RunSpec, row: dict[str, Tensor]) -> RunResult:
    val, test = row["best"].tolist()
    taken, curves = int(row["step"]), row["curves"]
    return RunResult(
        spec,
        val=val,
        test=test,
        step=int(row["best_step"]),
        steps_run=taken,
        seconds=float(row["seconds"]),
        diverged_at=int(row["diverged_at"]) or None,
        curves=curves[:taken].numpy().copy() if len(curves) else None,
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
