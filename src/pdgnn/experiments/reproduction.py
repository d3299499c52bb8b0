"""The paper's tables made anew: the runs of each cell, published and own scores side by side."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pdgnn.errors import InputError
from pdgnn.experiments.paper import cell, scope
from pdgnn.models import MODELS
from pdgnn.training.checkpoint import RunFolder, read_results
from pdgnn.training.spec import RunResult, RunSpec
from pdgnn.training.summary import mean_std

__all__ = [
    "Cell",
    "Score",
    "cell_specs",
    "finished_specs",
    "markdown",
    "merge_results",
    "paper_plan",
    "score",
]

REWIRED = " (rewired)"
PD_GATS = ("PD-GAT", "PD-GAT (rewired)", "PD-GAT-sep", "PD-GAT-sep (rewired)")
REWIRED_BASELINES = ("GCN (rewired)", "GAT (rewired)")
MODEL_LABELS = (
    *("GCN", "SAGE", "GAT", "GAT-sep", "GT", "GT-sep", "ResNet"),
    *(*REWIRED_BASELINES, "PD-GCN", *PD_GATS),
)


@dataclass(frozen=True)
class Cell:
    """A model, named as in the paper, on a dataset at a depth."""

    model: str
    dataset: str
    depth: int


@dataclass(frozen=True)
class Score:
    """Of a cell, in percent: mean and std (ddof 1) of the test scores, mean validation score."""

    mean: float
    std: float  # nan of a single run
    val: float
    runs: int


def paper_plan() -> list[Cell]:
    """What is made anew of the paper's tables, the cheap graphs first."""
    small = ("chameleon-filtered", "squirrel-filtered")
    plan = [Cell(m, name, depth) for name in small for depth in (2, 3) for m in MODEL_LABELS]
    plan += [Cell(m, "minesweeper", 5) for m in MODEL_LABELS]
    heavy = ("GCN", "GAT", *REWIRED_BASELINES, "PD-GCN", *PD_GATS)
    return plan + [Cell(m, "tolokers", 3) for m in heavy]


def cell_specs(
    model: str,
    dataset: str,
    depth: int,
    *,
    splits: Iterable[int] = range(10),
    steps: int = 1000,
    seed: int | None = None,
    precision: str = "float32",
) -> list[RunSpec]:
    """The runs of a cell, one for each split, with the α and γ that the paper has for it.

    `model` is a name of the paper's tables. A run's seed is its split's number, unless `seed` is
    given for all.

    >>> spec = cell_specs("PD-GAT-sep (rewired)", "minesweeper", 5)[7]
    >>> spec.model, spec.rewired, spec.alpha, spec.gamma, spec.split, spec.seed
    ('pd-gat-sep', True, 0.0, 0.3, 7, 7)
    """
    key, rewired = _model_key(model), model.endswith(REWIRED)
    alpha, gamma = 1.0, 1.0
    if rewired or "gamma" in MODELS[key].uses:
        tuned = scope(model, dataset)
        if tuned is None:
            raise InputError(
                f"the paper has no α and γ for {model} on {dataset}; choose your own in a RunSpec"
            )
        alpha, gamma = tuned
    return [
        RunSpec(
            dataset=dataset,
            model=key,
            depth=depth,
            split=split,
            seed=split if seed is None else seed,
            alpha=alpha,
            gamma=gamma,
            rewired=rewired,
            steps=steps,
            precision=precision,
        )
        for split in splits
    ]


def score(specs: Sequence[RunSpec], results: Mapping[str, RunResult]) -> Score | None:
    """What those of `specs` that are finished came to; `results` by the key of their spec."""
    found = [results[spec.key] for spec in specs if spec.key in results]
    if not found:
        return None
    mean, std = mean_std(100 * r.test for r in found)
    return Score(mean, std, mean_std(100 * r.val for r in found)[0], len(found))


def markdown(
    cells: Sequence[Cell],
    results: Mapping[str, RunResult],
    *,
    specs_of: Callable[[Cell], Sequence[RunSpec]] | None = None,
) -> str:
    """Published and own scores as a Markdown table, a line for each dataset and model.

    `specs_of` says which runs a cell has; default :func:`cell_specs`. A cell whose runs are not all
    finished says how many are, and takes no part in the choice of the depth; one that was not run
    in float32 says what in.
    """
    depths = sorted({c.depth for c in cells})
    heads = ["dataset", "model", "published", *(f"depth {d}" for d in depths)]
    heads += ["by validation", "within one std"]
    lines = [heads, ["---"] * len(heads)]
    for dataset, model in dict.fromkeys((c.dataset, c.model) for c in cells):
        own, complete = dict[int, str](), dict[int, Score]()
        for c in (c for c in cells if (c.dataset, c.model) == (dataset, model)):
            specs = (specs_of or _default_specs)(c)
            found = score(specs, results)
            if found is not None:
                own[c.depth] = shown(found, len(specs)) + _precision_mark(specs[0])
                if found.runs == len(specs):
                    complete[c.depth] = found
        paper = cell(model, dataset)
        line = [dataset, model, "" if paper is None else f"{paper[0]:.2f} ± {paper[1]:.2f}"]
        line += [own.get(depth, "") for depth in depths]
        lines.append(line + _verdict(complete, paper))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def shown(found: Score, wanted: int) -> str:
    """Mean ± std, and how many runs it is of where some are missing."""
    spread = "" if math.isnan(found.std) else f" ± {found.std:.2f}"
    part = "" if found.runs == wanted else f" ({found.runs} of {wanted})"
    return f"{found.mean:.2f}{spread}{part}"


def finished_specs(
    c: Cell, results: Mapping[str, RunResult], *, steps: int = 1000
) -> list[RunSpec]:
    """The runs of a cell in float32, or in the nearest precision that all of them are finished in.

    >>> finished_specs(Cell("GCN", "minesweeper", 5), {})[0].precision
    'float32'
    """
    for precision in ("float32", "tf32", "bfloat16"):
        specs = cell_specs(c.model, c.dataset, c.depth, steps=steps, precision=precision)
        if all(spec.key in results for spec in specs):
            return specs
    return cell_specs(c.model, c.dataset, c.depth, steps=steps)


def _precision_mark(spec: RunSpec) -> str:
    return "" if spec.precision == "float32" else f" ({spec.precision})"


def merge_results(folder: RunFolder, file: str | Path) -> int:
    """Add the finished runs of another results.jsonl that `folder` does not have; how many.

    Where the tasks.json of those runs lies beside it, their datasets must be those of `folder`.
    """
    path = Path(file)
    found = read_results(path)
    with folder.held():
        tasks = path.with_name("tasks.json")
        if tasks.exists():
            folder.check_tasks(json.loads(tasks.read_text(encoding="utf-8")))
        known = folder.results()
        new = {r.spec.key: r for r in found if r.spec.key not in known}
        if new:
            folder.add_results(new.values())
    return len(new)


def _model_key(label: str) -> str:
    keys = {str(model.name): key for key, model in MODELS.items()}
    name = label.removesuffix(REWIRED)
    if name not in keys:
        raise InputError(
            f"unknown model {label!r}; choose one of {', '.join(keys)}, or one of them{REWIRED}"
        )
    return keys[name]


def _default_specs(c: Cell) -> list[RunSpec]:
    return cell_specs(c.model, c.dataset, c.depth)


def _verdict(complete: dict[int, Score], paper: tuple[float, float] | None) -> list[str]:
    """The depth with the best mean validation score, and how it compares with the paper."""
    able = {depth: s for depth, s in complete.items() if not math.isnan(s.val)}
    if not able:
        return ["", ""]
    depth = max(able, key=lambda d: able[d].val)
    best = able[depth]
    chosen = f"{best.mean:.2f} (depth {depth})"
    if paper is None:
        return [chosen, ""]
    off = best.mean - paper[0]
    return [chosen, "yes" if abs(off) <= paper[1] else f"no, {off:+.2f}"]
