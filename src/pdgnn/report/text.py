"""An inspection as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pdgnn.graph import GraphReport
from pdgnn.report.escape import one_line
from pdgnn.report.grid import Grid
from pdgnn.report.inspection import Inspection, plain_words

__all__ = ["inspection_text", "plain_number"]

MANY_CLASSES = 8


def inspection_text(facts: Inspection) -> RenderableType:
    """All facts, and what they say, under a few headings."""
    parts: list[RenderableType] = [Text(one_line(facts.name), style="bold"), _pairs(_rows(facts))]
    if facts.homophily is not None:
        parts += [_heading("Homophily"), *_homophily(facts)]
    if facts.edges:
        parts += [_heading("Spectrum"), *_spectrum(facts)]
    if facts.gradient_node is not None:
        parts += [_heading("Rewiring"), _pairs(_rewiring(facts))]
    words = [_indented(Text(sentence)) for sentence in plain_words(facts)]
    return Group(*parts, _heading("What this says"), *words)


def _rows(facts: Inspection) -> Iterator[tuple[str, str]]:
    yield "nodes", f"{facts.nodes:,}"
    yield "edges", f"{facts.edges:,} undirected, {'' if facts.weighted else 'not '}weighted"
    numbers = ", ".join(f"{name} {plain_number(value)}" for name, value in facts.degree.items())
    yield "weighted degree" if facts.weighted else "degree", numbers
    yield "components", _components(facts)
    yield "changes", str(GraphReport(**facts.changes))
    if facts.features is not None:
        yield "features", f"{facts.features:,}"
    if facts.classes is not None:
        yield "classes", _classes(facts)
    if facts.splits is not None:
        yield "splits", _splits(facts.splits)


def _components(facts: Inspection) -> str:
    count, largest, isolated = facts.components.values()
    if count == 1:
        return "1"
    alone = f"; {isolated:,} of one node, without edges" if isolated else ""
    return f"{count:,}, the largest of {largest:,} node{'s' if largest > 1 else ''}{alone}"


def _classes(facts: Inspection) -> str:
    sizes = facts.classes or {}
    shown = ", ".join(f"{name}: {size:,}" for name, size in [*sizes.items()][:MANY_CLASSES])
    more = ", ..." if len(sizes) > MANY_CLASSES else ""
    rest = f"; {facts.unlabelled:,} nodes unlabelled" if facts.unlabelled else ""
    return f"{len(sizes)} ({shown}{more}){rest}" if sizes else f"0{rest}"


def _splits(splits: dict[str, list[int]]) -> str:
    """Their number and sizes, as a range where they differ."""
    sizes = ", ".join(
        f"{part} {min(n):,}" + (f" to {max(n):,}" if max(n) > min(n) else "")
        for part, n in splits.items()
    )
    return f"{len(splits['train'])} ({sizes})"


def _homophily(facts: Inspection) -> Iterator[RenderableType]:
    measures = facts.homophily or {}
    table = _table([name.replace("_", " ") for name in measures])
    table.add_row(*("undefined" if h is None else f"{h:.3f}" for h in measures.values()))
    yield _indented(table)
    causes = {name: why.partition(";")[0] for name, why in facts.homophily_undefined.items()}
    for cause in dict.fromkeys(causes.values()):
        names = ", ".join(name.replace("_", " ") for name in causes if causes[name] == cause)
        yield _indented(Text(f"{names} undefined: {cause}"))


def _spectrum(facts: Inspection) -> Iterator[RenderableType]:
    if facts.spectrum:
        table = _table(["γ", "λ1", "gap", "multiplicity", "residual", "solver", "seconds"])
        for s in facts.spectrum:
            table.add_row(
                f"{s.gamma:g}",
                *("none" if v is None else f"{v:.5g}" for v in (s.eigenvalue, s.gap)),
                f"{s.multiplicity}",
                f"{s.residual:.0e}",
                s.solver,
                f"{s.seconds:.2f}",
            )
        yield _indented(table)
    if any(s.gamma == 0 for s in facts.spectrum):
        yield _indented(Text("γ = 0 is the limit: λ1 of the combinatorial Laplacian D − A"))
    if facts.spectrum_error is not None:
        yield _indented(Text(f"not solved at every γ: {facts.spectrum_error}"))


def _rewiring(facts: Inspection) -> Iterator[tuple[str, str]]:
    node, rewiring = facts.gradient_node, facts.rewiring
    if node is None or rewiring is None:
        return
    number = "" if node.id == node.node else f" (node number {node.node})"
    yield (
        "gradient node",
        f"{one_line(node.id)}{number}, of degree {plain_number(node.degree)}, "
        f"at α = {node.alpha:g}, γ = {node.gamma:g}",
    )
    for reach, added in rewiring.items():
        edges = f"{added.edges:,} edge{'' if added.edges == 1 else 's'}"
        yield f"reach {reach}", f"would add {edges} ({added.share:.1%} more)"


def plain_number(value: float) -> str:
    """At most two decimals, and none where there are none.

    >>> plain_number(8.0), plain_number(7.8804), plain_number(11758.0)
    ('8', '7.88', '11,758')
    """
    return f"{value:,.2f}".rstrip("0").rstrip(".") if abs(value) >= 0.01 else f"{value:.3g}"


def _heading(text: str) -> Text:
    return Text(f"\n{text}", style="bold")


def _indented(part: RenderableType) -> Padding:
    return Padding(part, (0, 0, 0, 2))


def _pairs(rows: Iterator[tuple[str, str]]) -> Padding:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="dim")
    table.add_column()
    for name, value in rows:
        table.add_row(name, Text(value))
    return _indented(table)


def _table(columns: list[str]) -> Grid:
    table = Grid()
    for name in columns:
        table.add_column(name, justify="right", overflow="fold")
    return table
