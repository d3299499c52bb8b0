"""Every model by name.

A :class:`~pdgnn.nn.interface.Model` is written for one run; :func:`pdgnn.training.train` trains
many at once. The package's own models, the published baselines and a user's model are written
alike. ``MODELS`` is the one registry; ``train(models={"mine": Model(...)})`` adds to it for one
training.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, cast

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
from pdgnn.baselines.parts import one_of, whole
from pdgnn.errors import InputError, check_number
from pdgnn.graph import Graph
from pdgnn.nn.backbone import Backbone, BlockFactory
from pdgnn.nn.blocks import AggregateBlock, AttendBlock, DotBlock, FeedForwardBlock
from pdgnn.nn.checks import check_heads
from pdgnn.nn.inputs import EDGE_DIM, Weight, direction_phi, graph_inputs
from pdgnn.nn.interface import USABLE, Model, Option, Scalar, Size, seeded
from pdgnn.nn.pd_layer import NORMS
from pdgnn.nn.pd_net import PDNet, check_parts
from pdgnn.nn.plain import Plain, PlainAggregate, PlainAttend, PlainFactory, PlainLinear
from pdgnn.nn.scopes import AGGREGATIONS, Scope, check_scopes, net_inputs, parse_scopes

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
    if not isinstance(models, Mapping):
        raise InputError(f"models must be a dict of names and Models, not {models!r}")
    for name, model in models.items():
        if not isinstance(name, str):
            raise InputError(f"the name of a model must be a text, not {name!r}")
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
    phi = direction_phi(graph, spec.alpha, spec.gamma) if features else None
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


def _net_scopes(spec: RunSpec) -> tuple[Scope, ...]:
    """The scope of the run, and those beside it."""
    return (spec.alpha, spec.gamma), *parse_scopes(str(spec.options["scopes"]))


def _build_net(size: Size, spec: RunSpec) -> nn.Module:
    own = {n: v for n, v in spec.options.items() if n not in ("scopes", "scope_lr", "optimizer")}
    return PDNet(
        size.in_channels,
        spec.width,
        size.out_channels,
        depth=spec.depth,
        scopes=_net_scopes(spec),
        dropout=spec.dropout,
        heads=spec.heads,
        seed=spec.seed,
        **cast(dict[str, Any], own),
    )


def _net_inputs(graph: Graph, x: Tensor, spec: RunSpec) -> dict[str, Any]:
    names = ("aggregation", "attention", "eigenvectors", "learned")
    asked = cast(dict[str, Any], {name: spec.options[name] for name in names})
    fixed = asked["aggregation"] == "pd" and not asked["learned"]
    scoped = fixed or asked["attention"] or asked["eigenvectors"]  # else no run's own is read
    return net_inputs(graph, _net_scopes(spec) if scoped else (), **asked)


def _net_ignores(spec: RunSpec) -> list[str]:
    """Heads without attention; α and γ without P, directions and eigenvectors."""
    asked = {name: spec.options.get(name) for name in ("aggregation", "attention", "eigenvectors")}
    plain = asked["aggregation"] not in (None, "pd")
    attends = asked["aggregation"] == "gat" or asked["attention"]
    scoped = not plain or asked["attention"] or asked["eigenvectors"]
    return [*([] if attends else ["heads"]), *([] if scoped else ["alpha", "gamma"])]


def _check_net(spec: RunSpec) -> None:
    options = spec.options
    if options["attention"] or options["aggregation"] == "gat":
        _check_heads(spec)
    check_parts(
        check_scopes(_net_scopes(spec), learned=bool(options["learned"])),
        str(options["norm"]),
        str(options["aggregation"]),
        running=bool(options["running"]),
        learned=bool(options["learned"]),
    )


def _net_groups(spec: RunSpec) -> dict[str, dict[str, float]]:
    if not spec.options["learned"]:
        return {}
    return {"scope_": {"lr": cast(float, spec.options["scope_lr"]), "weight_decay": 0.0}}


def _net_optimizer(spec: RunSpec) -> str:
    return str(spec.options["optimizer"])


def _scopes_text(value: Any) -> str:
    if not isinstance(value, str):
        raise InputError(f"it must be a text such as '1,1;0.5,0.8', not {value!r}")
    return ";".join(f"{alpha:.12g},{gamma:.12g}" for alpha, gamma in parse_scopes(value))


_PD_NET = Model(
    build=_build_net,
    inputs=_net_inputs,
    groups=_net_groups,
    optimizer=_net_optimizer,
    options={
        "rounds": Option(1, whole(), help="how often the layers are applied"),
        "inject": Option(False, help="whether every layer sees the embedded features again"),
        "scopes": Option("", _scopes_text, help="further (alpha, gamma), such as 1:1;0.5:0.8"),
        "norm": Option("batch", one_of(*NORMS), help=", ".join(NORMS)),
        "running": Option(False, help="running statistics of the batch norm in evaluation"),
        "self_path": Option(True, help="whether there is W_self"),
        "aggregation": Option("pd", one_of(*AGGREGATIONS), help=", ".join(AGGREGATIONS)),
        "attention": Option(False, help="attention to direction features beside P"),
        "eigenvectors": Option(0, whole(0), help="eigenvectors of the scope as features"),
        "learned": Option(False, help="learn alpha and gamma of each scope and channel"),
        "scope_lr": Option(
            0.01, partial(check_number, "it"), value=True, help="their learning rate"
        ),
        "optimizer": Option(
            "adamw", one_of("adamw", "adam"), value=True, help="adamw, or adam with coupled L2"
        ),
    },
    name="PD-Net",
    uses=("depth", "width", "heads", "dropout", "alpha", "gamma", "rewired"),
    values=("dropout", "alpha", "gamma"),
    ignores=_net_ignores,
    sparse=True,
    check=_check_net,
)


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
    "pd-net": _PD_NET,
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
