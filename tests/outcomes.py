"""Made-up outcomes of experiments, for tests of tables and pages."""

from __future__ import annotations

from pdgnn.experiments.outcome import Cell, FactRow, FactTable, Published, Row, ScoreTable, Tried
from pdgnn.experiments.significance import Comparison
from pdgnn.training.spec import RunSpec

HOSTILE = "<script>alert(1)</script>&\"'|_*\\input{x}\x1b[31m"
ROWS = (
    Row("GCN", "gcn"),
    Row("H2GCN", "h2gcn", absent=True),
    Row("PD-GAT-sep (rewired)", "pd-gat-sep", rewired=True, tuned=True),
    Row(HOSTILE, "mine", tuned=True),
)
DATASETS = ("chameleon-filtered", "tolokers", "roman-empire")


def tried(row: Row, dataset: str, mean: float, *, n: int = 10, whole: bool = True, **setting):
    """A setting whose test scores are `mean` - 1 and + 1 by turns; validation is 2 above."""
    spec = RunSpec(dataset=dataset, model=row.model, rewired=row.rewired, **setting)
    test = tuple(mean + (-1) ** i for i in range(n))
    scopes = () if row.tuned is None else ((spec.alpha, spec.gamma),)
    val = tuple(t + 2 for t in test)
    return Tried(spec, tuple(range(n)), val, test, 12.0, whole, scopes=scopes)


def grid_cell(row: Row, dataset: str, **kw) -> Cell:
    """Eleven α, two γ, depths 2 and 3; the best is α = 0.3, γ = 0.5, depth 3, at 46.5."""
    found = [
        tried(
            row,
            dataset,
            40 + (depth == 3) + (gamma == 0.5) + (5 - 10 * abs(i / 10 - 0.3)) - 0.5,
            depth=depth,
            alpha=i / 10,
            gamma=gamma,
            whole=i < 8,
            **kw,
        )
        for depth in (2, 3)
        for gamma in (0.5, 1.0)
        for i in range(11)
    ]
    return Cell(row, dataset, Published(48.0, 1.0), tuple(found), 44, 320, 440, alike=tuple(found))


def score_table() -> ScoreTable:
    """Rows that are whole, absent, unfinished and hostile; the last dataset has no runs."""
    gcn, absent, rewired, mine = ROWS
    cells = {}
    for d in DATASETS[:2]:
        cells[gcn.label, d] = Cell(gcn, d, Published(40.0, 2.0), (tried(gcn, d, 42.0),), 1, 10, 10)
        cells[absent.label, d] = Cell(absent, d, Published(None, None, "OOM"))
        cells[rewired.label, d] = grid_cell(rewired, d, precision="bfloat16")
        cells[mine.label, d] = Cell(mine, d, None, (tried(mine, d, 34.0, n=1),), 1, 1, 10)
    cells[gcn.label, DATASETS[2]] = Cell(gcn, DATASETS[2], Published(73.69, 0.74))
    metrics = {"chameleon-filtered": "accuracy", "tolokers": "roc_auc", "roman-empire": "accuracy"}
    return ScoreTable("table2", "Table 2: benchmark", ROWS, DATASETS, metrics, cells)


COMPARISONS = {("GCN", d): Comparison(2.0, 0.001, 0.01) for d in DATASETS[:2]}


def fact_table() -> FactTable:
    """Two rows, the second without own values."""
    rows = (
        FactRow("cora", (0.83, 0.81, None), (0.8251, 0.81, -0.05)),
        FactRow(HOSTILE, (0.5, "OOM", 22662.0), (None, None, None)),
    )
    return FactTable("homophily", "Homophily", ("node", "edge", HOSTILE), rows)
