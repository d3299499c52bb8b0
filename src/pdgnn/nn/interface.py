"""The interface of a model to the trainer: its module, its inputs, its loss, its options."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from pdgnn.errors import InputError, check_number
from pdgnn.graph import Graph
from pdgnn.rewiring import rewire
from pdgnn.spectrum import first_eigenvector

if TYPE_CHECKING:
    from pdgnn.training.spec import RunSpec

__all__ = ["USABLE", "Model", "Option", "Scalar", "Size", "seeded"]

Scalar = bool | int | float | str | None
USABLE = ("depth", "width", "heads", "dropout", "alpha", "gamma", "rewired")
"""The fields of a :class:`~pdgnn.training.RunSpec` that a model may use or not."""
OPTIMIZERS = ("adamw", "adam")
_GENERATOR = threading.RLock()


@dataclass(frozen=True)
class Size:
    """What the data asks of a module: features of a node, logits, nodes and classes."""

    in_channels: int
    out_channels: int
    num_nodes: int = 0
    num_classes: int = 0


@dataclass(frozen=True)
class Option:
    """A setting that is a model's own.

    Attributes:
        default: A number, a flag, a text or None.
        check: Takes a value and returns it, or raises :class:`~pdgnn.InputError`. Without one, a
            value must be of the default's type.
        value: False: another value may be another shape of the parameters or another course of the
            code, so runs that differ in it train apart. True: the module keeps it as a tensor (a
            buffer, a parameter or one of its inputs), so runs that differ in it train together.
        help: A few words for ``pdgnn train --list``.
    """

    default: Scalar
    check: Callable[[Any], Any] | None = None
    value: bool = False
    help: str = ""

    def checked(self, name: str, value: Any) -> Scalar:
        """`value` if it may be given to this option, which is called `name`."""
        if self.check is not None:
            try:
                value = self.check(value)
            except InputError as e:
                raise InputError(f"option {name}: {e}") from e
        elif isinstance(self.default, bool):
            if not isinstance(value, bool):
                raise InputError(f"option {name} must be True or False, not {value!r}")
        elif isinstance(self.default, int):
            if not isinstance(value, int) or isinstance(value, bool):
                raise InputError(f"option {name} must be a whole number, not {value!r}")
        elif isinstance(self.default, float):
            value = check_number(f"option {name}", value, -float("inf"))
        elif isinstance(self.default, str) and not isinstance(value, str):
            raise InputError(f"option {name} must be a text, not {value!r}")
        if not isinstance(value, bool | int | float | str | None):
            raise InputError(
                f"option {name} must be a number, a flag or a text, not {type(value).__name__}"
            )
        return value


def _checked_optimizer(name: Any) -> str:
    if name not in OPTIMIZERS:
        raise InputError(f"optimizer must be 'adamw' or 'adam', not {name!r}")
    return str(name)


def _edge_index(graph: Graph, x: Tensor, spec: RunSpec) -> dict[str, Any]:
    return {"edge_index": graph.edge_index}


@dataclass(frozen=True, kw_only=True)
class Model:
    """A kind of module and how it is trained; all of it is said for one run.

    Attributes:
        build: ``build(size, spec)`` makes the module. Its ``forward(x, ...)`` returns logits
            ``[N, size.out_channels]``, or a dict with ``"logits"`` and what `loss` needs besides.
            It is called with torch's generators seeded by ``spec.seed``.
        inputs: ``inputs(graph, x, spec)`` gives what ``forward`` is called with by name: tensors,
            :class:`~pdgnn.ops.Edges`, plain values. Default: ``edge_index``, every edge both ways.
            `graph` is the rewired one where the run asks for it. ``"x"`` may be among them, in the
            place of the features. What is the same object for two runs is held once; floating-point
            tensors that differ are stacked; runs whose other inputs differ train apart.
        loss: ``loss(outputs, target, train, step)`` gives one number: what ``forward`` returned,
            the classes ``[N]`` (0 where there is no label), the training nodes ``[N]`` as flags,
            and the number of the step from 1 on, a tensor. With a parameter called `weight` it also
            gets the class weights ``[classes]`` of the task, or None. It runs under vmap and in a
            CUDA graph: no ``if`` on a tensor and no shape that depends on one. Default: the mean
            cross entropy (with one logit: binary) over the training nodes.
        groups: Parameters that have a learning rate or decay of their own: how their names begin,
            and a dict with ``lr`` and ``weight_decay`` (either may be left out); or a function of
            the spec that gives this. The longest beginning that fits counts.
        optimizer: ``"adamw"``, or ``"adam"`` with L2 decay in the gradient; or a function of the
            spec that gives either.
        options: The settings of its own by name, each an :class:`Option` or just the default.
        name: What tables call it; default: its name in the registry.
        uses: Which of :data:`USABLE` matter to it; the others are set to their default.
        values: Which of these it keeps as tensors, so that runs that differ in them train together
            (see :class:`Option`).
        ignores: ``ignores(spec)`` gives those of `uses` that do not matter to this run because of
            its options, of which a spec may have all or some.
        labels: Whether `inputs` is also given ``labels=``: the classes ``[N]`` of the training
            nodes of the run's split, -1 elsewhere.
        sparse: Whether ``forward`` also takes :class:`~pdgnn.nn.SparseFeatures` for x.
        check: Raises :class:`~pdgnn.InputError` for a spec that cannot be built.
    """

    build: Callable[[Size, RunSpec], nn.Module]
    inputs: Callable[..., Mapping[str, Any]] = _edge_index
    loss: Callable[..., Tensor] | None = None
    groups: (
        Mapping[str, Mapping[str, float]] | Callable[[RunSpec], Mapping[str, Mapping[str, float]]]
    ) = field(default_factory=dict)
    optimizer: Literal["adamw", "adam"] | Callable[[RunSpec], str] = "adamw"
    options: Mapping[str, Any] = field(default_factory=dict)
    name: str | None = None
    uses: Sequence[str] = USABLE
    values: Sequence[str] = ()
    ignores: Callable[[RunSpec], Collection[str]] | None = None
    labels: bool = False
    sparse: bool = False
    check: Callable[[RunSpec], None] | None = None

    def __post_init__(self) -> None:
        """Check what can be checked without a run."""
        for what in ("build", "inputs", "loss", "ignores", "check"):
            given = getattr(self, what)
            if not callable(given) and (given is not None or what in ("build", "inputs")):
                raise InputError(f"{what} of a model must be a function, not {given!r}")
        if not callable(self.groups) and not isinstance(self.groups, Mapping):
            raise InputError(f"groups must be a dict or a function, not {self.groups!r}")
        if not isinstance(self.options, Mapping):
            raise InputError(f"options must be a dict of names and defaults, not {self.options!r}")
        if not callable(self.optimizer):
            _checked_optimizer(self.optimizer)
        for what, names in (("uses", self.uses), ("values", self.values)):
            if wrong := [n for n in names if n not in USABLE]:
                raise InputError(f"{what} has {wrong[0]!r}; choose among {', '.join(USABLE)}")
        made = {
            name: given if isinstance(given, Option) else Option(given)
            for name, given in self.options.items()
        }
        for name, option in made.items():
            if not name.isidentifier():
                raise InputError(f"an option is called like a variable, not {name!r}")
            option.checked(name, option.default)
        object.__setattr__(self, "options", made)

    def make(self, size: Size, spec: RunSpec) -> nn.Module:
        """The module of a run, on the CPU, its parameters drawn from ``spec.seed`` alone.

        torch's own generators are left as they were.
        """
        with seeded(spec.seed), torch.device("cpu"):
            module = self.build(size, spec)
        if not isinstance(module, nn.Module):
            raise InputError(
                f"build of the model {spec.model!r} must return an nn.Module, not "
                f"{type(module).__name__}"
            )
        return module

    def prepare(
        self, graph: Graph, x: Tensor, spec: RunSpec, labels: Tensor | None = None
    ) -> dict[str, Any]:
        """What the module is called with besides x, on `graph` or, where `spec` says, rewired."""
        if spec.rewired:
            phi = first_eigenvector(graph, alpha=spec.alpha, gamma=spec.gamma)
            graph = rewire(graph, reach=spec.reach, phi=phi)
        found = self.inputs(graph, x, spec, **({"labels": labels} if self.labels else {}))
        if not isinstance(found, Mapping):
            raise InputError(f"inputs of the model {spec.model!r} must give a dict of names")
        return dict(found)

    def rates(self, spec: RunSpec) -> dict[str, tuple[float, float]]:
        """Learning rate and decay by how the name of a parameter begins; ``""`` is all others."""
        groups = self.groups(spec) if callable(self.groups) else self.groups
        found = {"": (spec.lr, spec.weight_decay)}
        for prefix, own in groups.items():
            if not set(own) <= {"lr", "weight_decay"}:
                raise InputError(f"the group {prefix!r} takes lr and weight_decay, not {own}")
            lr = check_number(f"lr of the group {prefix!r}", own.get("lr", spec.lr))
            decay = own.get("weight_decay", spec.weight_decay)
            found[prefix] = (lr, check_number(f"weight_decay of the group {prefix!r}", decay))
        return found

    def coupled(self, spec: RunSpec) -> bool:
        """Whether the decay of this run is added to its gradients, as ``"adam"`` has it."""
        given = self.optimizer(spec) if callable(self.optimizer) else self.optimizer
        return _checked_optimizer(given) == "adam"

    def used(self, spec: RunSpec) -> frozenset[str]:
        """The fields among :data:`USABLE`, and ``"reach"``, that matter to this run."""
        found = set(self.uses)
        if self.ignores is not None:
            found -= set(self.ignores(spec))
        if spec.rewired and "rewired" in found:
            found |= {"alpha", "gamma", "reach"}
        return frozenset(found)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """torch's generator of the CPU begins at `seed` in this block, and is as before after it.

    The process has one such generator: another thread that comes here waits for the block to end.
    """
    with _GENERATOR, torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # not torch.manual_seed, which seeds GPUs too
        yield
