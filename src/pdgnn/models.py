"""Every model by name.

A :class:`~pdgnn.nn.interface.Model` is written for one run; :func:`pdgnn.training.train` trains
many at once. The package's own models, the published baselines and a user's model are written
alike. ``MODELS`` is the one registry; ``train(models={"mine": Model(...)})`` adds to it for one
training.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from pdgnn.baselines import (
    appnp,
    bernnet,
    cpgnn,
    dgn,
    fagcn,
    fsgnn,
    gbk_gnn,
    glognn,
    gpr_gnn,
    h2gcn,
    jacobiconv,
    linkx,
    pgso_gcn,
    wgcn,
)
from pdgnn.errors import InputError
from pdgnn.graph import Graph
from pdgnn.nn.backbone import Backbone, BlockFactory
from pdgnn.nn.blocks import AggregateBlock, AttendBlock, DotBlock, FeedForwardBlock
from pdgnn.nn.checks import check_heads
from pdgnn.nn.inputs import EDGE_DIM, Weight, graph_inputs
from pdgnn.nn.interface import USABLE, Model, Option, Scalar, Size, seeded
from pdgnn.nn.plain import Plain, PlainAggregate, PlainAttend, PlainFactory, PlainLinear
from pdgnn.spectrum import first_eigenvector

if TYPE_CHECKING:
    from pdgnn.training.spec import RunSpec

__all__ = [
    "MODELS",
    "USABLE",
    "Model",
    "Option",
    "Scalar",
    "Size",
    "check_models",
    "find_model",
    "seeded",
]


def find_model(name: str, models: Mapping[str, Model] | None = None) -> Model:
    """The model called `name` among `models` and :data:`MODELS`; an error that lists them."""
    found = (models or {}).get(name) or MODELS.get(name)
    if found is None:
        known = ", ".join([*(models or {}), *MODELS])
        raise InputError(f"unknown model {name!r}; choose one of {known}")
    return found


def check_models(models: Mapping[str, Model]) -> dict[str, Model]:
    """`models` if they are some, with names that the registry does not have."""
    for name, model in models.items():
        if not isinstance(model, Model):
            raise InputError(f"the model {name!r} must be a Model, not {type(model).__name__}")
        if name in MODELS:
            raise InputError(f"{name!r} is a model of pdgnn already; choose another name")
    return dict(models)


def _build(size: Size, spec: RunSpec, kind: type[Backbone | Plain], **layers: Any) -> nn.Module:
    return kind(
        size.in_channels,
        spec.width,
        size.out_channels,
        depth=spec.depth,
        heads=spec.heads,
        dropout=spec.dropout,
        seed=spec.seed,
        **layers,
    )


def _inputs(
    graph: Graph,
    x: Tensor,
    spec: RunSpec,
    *,
    loops: bool = False,
    weight: Weight | None = None,
    features: bool = False,
) -> dict[str, Any]:
    phi = None
    if features:
        phi = getattr(graph, "phi", None)  # a rewired graph has that of the graph before
        if phi is None:
            phi = first_eigenvector(graph, alpha=spec.alpha, gamma=spec.gamma)
    scope = (spec.alpha, spec.gamma) if weight == "diffusion" else (1.0, 1.0)
    return graph_inputs(graph, loops=loops, weight=weight, scope=scope, phi=phi)


def _check_heads(spec: RunSpec) -> None:
    try:
        check_heads(spec.width, spec.heads)
    except InputError as e:
        raise InputError(
            f"width {spec.width} does not split into {spec.heads} equal heads, which {spec.model} "
            "needs; choose a multiple"
        ) from e


def _own(
    name: str,
    build: Callable[[Size, RunSpec], nn.Module],
    *,
    heads: bool = False,
    graph: bool = True,
    loops: bool = False,
    weight: Weight | None = None,
    features: bool = False,
) -> Model:
    """A model of the residual backbone or of plain layers."""
    uses = ["depth", "width", "dropout"]
    uses += ["heads"] if heads else []
    uses += ["rewired"] if graph else []
    uses += ["alpha", "gamma"] if features or weight == "diffusion" else []
    return Model(
        build=build,
        inputs=partial(_inputs, loops=loops, weight=weight, features=features),
        name=name,
        uses=uses,
        values=("dropout", "alpha", "gamma"),
        sparse=True,
        check=_check_heads if heads else None,
    )


def _residual(name: str, *blocks: BlockFactory, **asked: Any) -> Model:
    return _own(name, partial(_build, kind=Backbone, blocks=blocks), **asked)


def _flat(name: str, layer: PlainFactory, **asked: Any) -> Model:
    return _own(name, partial(_build, kind=Plain, layer=layer), **asked)


_AttendFeatures = partial(AttendBlock, edge_dim=EDGE_DIM)
_GAT: dict[str, Any] = {"heads": True, "loops": True}
_SEP: dict[str, Any] = {"heads": True}

MODELS: dict[str, Model] = {
    "mlp": _flat("MLP", PlainLinear, graph=False),
    "resnet": _residual("ResNet", FeedForwardBlock, graph=False),
    "gcn": _residual("GCN", AggregateBlock, loops=True, weight="symmetric"),
    "sage": _residual("SAGE", partial(AggregateBlock, sep=True), weight="mean"),
    "gat": _residual("GAT", AttendBlock, **_GAT),
    "gat-sep": _residual("GAT-sep", partial(AttendBlock, sep=True), **_SEP),
    "gt": _residual("GT", DotBlock, FeedForwardBlock, **_GAT),
    "gt-sep": _residual("GT-sep", partial(DotBlock, sep=True), FeedForwardBlock, **_SEP),
    "pd-gcn": _residual("PD-GCN", AggregateBlock, loops=True, weight="diffusion"),
    "pd-gat": _residual("PD-GAT", _AttendFeatures, features=True, **_GAT),
    "pd-gat-sep": _residual(
        "PD-GAT-sep", partial(_AttendFeatures, sep=True), features=True, **_SEP
    ),
    "h2gcn": h2gcn.MODEL,
    "cpgnn": cpgnn.MODEL,
    "gpr-gnn": gpr_gnn.MODEL,
    "fsgnn": fsgnn.MODEL,
    "glognn": glognn.MODEL,
    "fagcn": fagcn.MODEL,
    "gbk-gnn": gbk_gnn.MODEL,
    "jacobiconv": jacobiconv.MODEL,
    "bernnet": bernnet.MODEL,
    "linkx": linkx.MODEL,
    "appnp": appnp.MODEL,
    "dgn": dgn.MODEL,
    "wgcn": wgcn.MODEL,
    "pgso-gcn": pgso_gcn.MODEL,
    "plain-gcn": _flat("GCN (plain)", PlainAggregate, loops=True, weight="symmetric"),
    "plain-gat": _flat("GAT (plain)", PlainAttend, **_GAT),
    "plain-pd-gcn": _flat("PD-GCN (plain)", PlainAggregate, loops=True, weight="diffusion"),
    "plain-pd-gat": _flat(
        "PD-GAT (plain)", partial(PlainAttend, edge_dim=EDGE_DIM), features=True, **_GAT
    ),
}
