"""What there is to know of a graph before anything is trained on it.

:func:`inspect_graph` gathers the facts, :func:`plain_words` says what they mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdgnn import homophily
from pdgnn.errors import ConvergenceError, InputError
from pdgnn.graph import Graph
from pdgnn.io.sources import PARTS, Source
from pdgnn.laplacian import check_alpha, check_gamma
from pdgnn.rewiring import Reach, gradient_node, rewire
from pdgnn.spectrum import Spectrum, eigenpairs_path

__all__ = [
    "Added",
    "Eigenvalue",
    "GradientNode",
    "Inspection",
    "about_labels",
    "component_sizes",
    "degree_numbers",
    "inspect_graph",
    "measured_homophily",
    "plain_words",
]

REACHES: tuple[Reach, ...] = ("all", "far")


@dataclass(frozen=True)
class Eigenvalue:
    """λ1 of the largest component at one γ, and how it was found; None is what there is not."""

    gamma: float
    eigenvalue: float | None
    gap: float | None
    multiplicity: int
    residual: float
    solver: str
    seconds: float


@dataclass(frozen=True)
class GradientNode:
    """The gradient node of the largest component: its number, and its id where it has a name."""

    alpha: float
    gamma: float
    node: int
    id: int | str
    degree: float


@dataclass(frozen=True)
class Added:
    """The edges that rewiring would add, and their share of the edges that are there."""

    edges: int
    share: float


@dataclass(frozen=True)
class Inspection:
    """The facts about a graph. None is what does not apply; no number is nan.

    `homophily` has a measure that is 0/0 as None, and `homophily_undefined` says why.
    `spectrum_error` says why eigenvalues are missing, where a solver gave up. `embedding` is φ at
    the α and γ of the gradient node, ``[N, k]``; it is not part of :meth:`as_dict`.
    """

    name: str
    nodes: int
    edges: int
    weighted: bool
    degree: dict[str, float]  # min, median, mean, max
    components: dict[str, int]  # count, largest, isolated
    changes: dict[str, int]
    features: int | None
    classes: dict[str, int] | None  # the number of nodes of each class
    unlabelled: int | None
    splits: dict[str, list[int]] | None  # the size of each part in each split
    homophily: dict[str, float | None] | None
    homophily_undefined: dict[str, str]
    spectrum: list[Eigenvalue]
    spectrum_error: str | None
    gradient_node: GradientNode | None
    rewiring: dict[str, Added] | None
    embedding: NDArray[np.float64] | None = field(repr=False, compare=False)

    def as_dict(self) -> dict[str, Any]:
        """The facts as plain numbers, strings, lists and dicts: valid JSON under stable keys."""
        facts = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "embedding"}
        facts["spectrum"] = [asdict(found) for found in self.spectrum]
        facts["gradient_node"] = self.gradient_node and asdict(self.gradient_node)
        facts["rewiring"] = self.rewiring and {s: asdict(a) for s, a in self.rewiring.items()}
        facts["says"] = plain_words(self)
        return facts


def inspect_graph(
    source: Source,
    *,
    gammas: Iterable[float] = (0.0, 0.5, 1.0),
    alpha: float = 1.0,
    gamma: float = 1.0,
    k: int = 1,
    device: str = "cpu",
    progress: Callable[[str], None] = lambda _: None,
) -> Inspection:
    """The facts about the graph of `source`: its size, labels, spectrum, and gradient node.

    λ1 is solved at each of `gammas` and at `gamma`, the embedding, gradient node and rewiring are
    those of (α, γ) = (`alpha`, `gamma`). `progress` is told what is being done, in words.

    >>> facts = inspect_graph(Source("path", Graph.from_edge_index([[0, 1, 2], [1, 2, 3]])))
    >>> facts.degree, facts.gradient_node.node, facts.rewiring["all"]
    ({'min': 1.0, 'median': 1.5, 'mean': 1.5, 'max': 2.0}, 0, Added(edges=2, share=0.6666...))
    """
    alpha, gamma = check_alpha(alpha), check_gamma(gamma)
    g = source.graph
    wanted = sorted({check_gamma(value) for value in (*gammas, gamma)})
    progress("homophily")
    measured, undefined = measured_homophily(g, source.labels)
    # where most nodes have no edge, the others are all that the spectrum is about
    nodes, core = g.core() if g.num_nodes > 4 * g.num_edges else (np.arange(g.num_nodes), g)
    spectra, failure = _solved(core, wanted, k, device, progress)
    progress("rewiring")
    at = spectra.get(gamma)
    phi = None if at is None else at.eigenvectors(alpha)
    return Inspection(
        name=source.name,
        nodes=g.num_nodes,
        edges=g.num_edges,
        weighted=g.is_weighted,
        degree=degree_numbers(g),
        components=component_sizes(g),
        changes=asdict(g.report),
        features=None if source.features is None else source.features.shape[1],
        classes=_classes(source.labels),
        unlabelled=None if source.labels is None else int((source.labels < 0).sum()),
        splits=_splits(source),
        homophily=measured,
        homophily_undefined=undefined,
        spectrum=[_eigenvalue(spectra[value]) for value in wanted if value in spectra],
        spectrum_error=failure,
        gradient_node=None if phi is None else _gradient_node(core, nodes, phi[:, 0], alpha, gamma),
        rewiring=None if phi is None else _rewiring(core, phi[:, 0]),
        embedding=None if phi is None else _spread(phi, nodes, g.num_nodes),
    )


def degree_numbers(g: Graph) -> dict[str, float]:
    """The least, median, mean and greatest (weighted) degree."""
    d = g.degree
    return {
        "min": float(d.min()),
        "median": float(np.median(d)),
        "mean": float(d.mean()),
        "max": float(d.max()),
    }


def component_sizes(g: Graph) -> dict[str, int]:
    """How many components there are, the nodes of the largest, and the nodes without edges."""
    return {
        "count": g.num_components,
        "largest": int(np.bincount(g.components).max()),
        "isolated": int((g.degree == 0).sum()),
    }


def _classes(labels: NDArray[np.int64] | None) -> dict[str, int] | None:
    if labels is None:
        return None
    names, sizes = np.unique(labels[labels >= 0], return_counts=True)
    return dict(zip(map(str, names.tolist()), sizes.tolist(), strict=True))


def _splits(source: Source) -> dict[str, list[int]] | None:
    if source.masks is None:
        return None
    return {part: source.masks[part].sum(axis=1).tolist() for part in PARTS}


def measured_homophily(
    g: Graph, labels: NDArray[np.int64] | None
) -> tuple[dict[str, float | None] | None, dict[str, str]]:
    """Every measure that has a value, and the reason for every one that has none."""
    if labels is None:
        return None, {}
    values: dict[str, float | None] = {}
    undefined: dict[str, str] = {}
    for name, measure in homophily.MEASURES.items():
        try:
            values[name] = measure(g, labels)
        except InputError as e:
            values[name], undefined[name] = None, str(e)
    return values, undefined


def _solved(
    g: Graph, wanted: list[float], k: int, device: str, progress: Callable[[str], None]
) -> tuple[dict[float, Spectrum], str | None]:
    """The spectrum at each γ, as far as a solver did not give up, and why it did."""
    done: dict[float, Spectrum] = {}
    if g.num_edges == 0:
        return done, None

    def tell_next() -> None:
        if len(done) < len(wanted):
            progress(f"eigenvalues at {len(done) + 1} of {len(wanted)} γ")

    def keep(found: Spectrum) -> None:
        done[found.gamma] = found
        tell_next()

    tell_next()
    try:
        eigenpairs_path(g, wanted, k=k, device=device, progress=keep)
    except ConvergenceError as e:
        return done, str(e)
    return done, None


def _eigenvalue(s: Spectrum) -> Eigenvalue:
    first, gap = float(s.eigenvalues[0]), float(s.gap)
    return Eigenvalue(
        gamma=s.gamma,
        eigenvalue=first if np.isfinite(first) else None,
        gap=gap if np.isfinite(gap) else None,
        multiplicity=s.multiplicity,
        residual=float(s.residuals[0]),
        solver=s.solver,
        seconds=s.seconds,
    )


def _gradient_node(
    core: Graph, nodes: NDArray[np.int64], phi: NDArray[np.float64], alpha: float, gamma: float
) -> GradientNode:
    at = gradient_node(core, phi=phi)
    name: Any = nodes[at] if core.node_ids is None else core.node_ids[at]
    name = int(name) if isinstance(name, int | np.integer) else str(name)
    return GradientNode(alpha, gamma, int(nodes[at]), name, float(core.degree[at]))


def _spread(phi: NDArray[np.float64], nodes: NDArray[np.int64], n: int) -> NDArray[np.float64]:
    """φ of all nodes ``[N, k]``; 0 for those without edges."""
    embedding = np.zeros((n, phi.shape[1]))
    embedding[nodes] = phi
    return embedding


def _rewiring(g: Graph, phi: NDArray[np.float64]) -> dict[str, Added]:
    counts = {reach: rewire(g, reach=reach, phi=phi).added.shape[1] for reach in REACHES}
    return {reach: Added(n, n / g.num_edges) for reach, n in counts.items()}


def plain_words(facts: Inspection) -> list[str]:
    """What the numbers say, a sentence each; only what follows from them.

    >>> board = Graph.from_edge_index([[0, 1, 2, 3], [1, 2, 3, 0]])
    >>> square = Source("square", board, labels=np.array([0, 1, 0, 1]))
    >>> print(*plain_words(inspect_graph(square))[:1])
    Neighbours differ in class more often than chance would have it (adjusted homophily -1.00).
    """
    if facts.edges == 0:
        return ["The graph has no edges: there are no neighbours to learn from."]
    said = [about_labels(facts.homophily), _about_pieces(facts), _about_repeats(facts)]
    return [*filter(None, said), *_about_rewiring(facts)]


def about_labels(measures: dict[str, float | None] | None) -> str | None:
    """What the measures of homophily say of neighbours, in a sentence."""
    if measures is None or measures["adjusted"] is None:
        return None
    h, told = measures["adjusted"], measures["label_informativeness"] or 0.0
    shown = f"adjusted homophily {h:.2f}"
    if h >= 0.5:
        return f"Neighbours mostly share their class ({shown}): averaging over them helps."
    if h > 0.1:
        return f"Neighbours share their class somewhat more often than chance ({shown})."
    if h < -0.1:
        return f"Neighbours differ in class more often than chance would have it ({shown})."
    if told > 0.1:
        return (
            f"Neighbours share their class no more often than chance ({shown}), yet a neighbour's "
            f"class tells of one's own (label informativeness {told:.2f})."
        )
    return f"A neighbour's class tells next to nothing of one's own ({shown}, chance is 0)."


def _about_pieces(facts: Inspection) -> str | None:
    count, isolated = facts.components["count"], facts.components["isolated"]
    if count == 1:
        return None
    alone = f" {isolated:,} of them are single nodes without edges." if isolated else ""
    return (
        f"The graph is in {count:,} pieces: the numbers of the spectrum are those of the largest "
        f"({facts.components['largest'] / facts.nodes:.0%} of the nodes), and nothing is joined "
        f"across pieces.{alone}"
    )


def _about_repeats(facts: Inspection) -> str | None:
    repeated = [f"{s.gamma:g}" for s in facts.spectrum if s.multiplicity > 1]
    if not repeated:
        return None
    return (
        f"λ1 repeats at γ = {', '.join(repeated)}, as in symmetric graphs: several directions "
        "are equally first, and which of them φ1 follows is settled by rule."
    )


def _about_rewiring(facts: Inspection) -> list[str]:
    if facts.rewiring is None or facts.gradient_node is None:
        return []
    added = facts.rewiring["all"]
    if added.edges == 0:
        return ["Every node is joined to its gradient node already: rewiring changes nothing."]
    return [
        f"Rewiring to the gradient node brings any two nodes of a piece within two steps, "
        f"for {added.share:.1%} more edges."
    ]
