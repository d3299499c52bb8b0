"""PD-Net on boards that it has not seen, larger ones and in more rounds than it was trained with.

    python benchmarks/boards.py --device cuda
    python benchmarks/boards.py --quick             # small boards, few steps
    python benchmarks/boards.py --table             # prints, trains nothing

It is trained on ``--boards`` generated minesweeper boards of ``--train-size``² cells, all cells of
which are its training nodes; two further boards choose the step. Then it predicts all cells of
fresh boards, each a graph of its own, of several sizes and in several numbers of rounds: ROC AUC,
the mean over the boards of a size, of about 40,000 cells in all or of one board. Rows are kept in
``results/boards.json`` with the machine and the versions.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import common
from pdgnn.experiments.provenance import Row, read_rows

SCRIPT = "boards.py"
PACKAGES = ("pdgnn", "torch", "triton")
VALIDATION = 2
"""Boards that choose the step."""
CELLS = 40_000
"""Of the boards of a size that are predicted, about."""
FRESH = 1_000_000
"""Seeds of these boards begin here."""
QUICK: dict[str, Any] = {"rounds": 6, "train_size": 30, "boards": 2, "steps": 30, "width": 32}


@dataclass(frozen=True)
class Case:
    """What is trained; a row of the same case and machine is not measured again."""

    device: str
    rounds: int = 20
    train_size: int = 50
    boards: int = 8
    steps: int = 800
    depth: int = 2
    width: int = 64
    lr: float = 0.01
    dropout: float = 0.2
    alpha: float = 0.0
    gamma: float = 1.0
    norm: str = "batch"
    running: bool = False
    seed: int = 0
    precision: str = "float32"


def training_task(case: Case) -> Any:
    """The boards side by side as one graph, its split the boards themselves."""
    import torch

    from pdgnn import Graph
    from pdgnn.datasets.board import minesweeper
    from pdgnn.training import Task

    first = case.seed * (case.boards + VALIDATION)
    data = [
        minesweeper(size=case.train_size, seed=first + i) for i in range(case.boards + VALIDATION)
    ]
    cells = case.train_size**2
    index = torch.cat([d.edge_index + i * cells for i, d in enumerate(data)], dim=1)
    x, y = (torch.cat([d[name] for d in data]) for name in ("x", "y"))
    masks = torch.zeros(1, 3, len(y), dtype=torch.bool)
    masks[0, 0, : case.boards * cells] = True
    masks[0, 1, case.boards * cells :] = True
    return Task.from_arrays(Graph.from_edge_index(index, len(y)), x, y, masks, name="boards")


def trained(case: Case) -> tuple[Any, Any]:
    """The module at its best validation step, and the result of its run."""
    from pdgnn.models import MODELS
    from pdgnn.training import RunSpec, train

    task = training_task(case)
    names = ("steps", "depth", "width", "lr", "dropout", "alpha", "gamma", "seed", "precision")
    options: dict[str, Any] = {
        "rounds": case.rounds,
        "inject": True,
        "norm": case.norm,
        "running": case.running,
    }
    given: dict[str, Any] = {name: getattr(case, name) for name in names}
    spec = RunSpec(dataset="boards", model="pd-net", options=options, **given)
    (result,) = train([spec], tasks={"boards": task}, device=case.device, keep=("weights",))
    module = MODELS["pd-net"].make(task.size, result.spec)
    module.load_state_dict(result.weights or {})
    return module.eval(), result


def fresh_scores(module: Any, size: int, rounds: Sequence[int], device: str) -> dict[str, float]:
    """The mean ROC AUC over fresh boards of size², by the number of rounds."""
    import torch

    from pdgnn import Graph
    from pdgnn.datasets.board import minesweeper
    from pdgnn.training.metrics import scores

    module, count = module.to(device), max(1, CELLS // size**2)
    total = dict.fromkeys(map(str, rounds), 0.0)
    for seed in range(FRESH, FRESH + count):
        board = minesweeper(size=size, seed=seed)
        inputs = {n: v.to(device) for n, v in module.inputs(Graph.from_data(board)).items()}
        x, y = board.x.to(device), board.y.to(device)
        every = torch.ones(1, 1, len(y), dtype=torch.bool, device=device)
        for number in rounds:
            with torch.no_grad():
                logits = module(x, **inputs, rounds=number)
            found = scores(logits.float()[None], y, every, "roc_auc")
            total[str(number)] += float(found[0, 0]) / count
    return total


def measure(case: Case, sizes: Sequence[int], rounds: Sequence[int]) -> Row:
    begun = time.perf_counter()
    module, result = trained(case)
    seconds = time.perf_counter() - begun
    auc = {str(size): fresh_scores(module, size, rounds, case.device) for size in sizes}
    lists = [
        f"--{name} {','.join(map(str, values))}"
        for name, values in (("sizes", sizes), ("predict-rounds", rounds))
    ]
    words = [f"python benchmarks/{SCRIPT} --device {case.device}", *changed(case), *lists]
    return {
        "command": " ".join(words),
        "seconds": seconds,
        "step": result.step,
        "val": result.val,
        "auc": auc,
    }


def changed(case: Case) -> list[str]:
    """The fields that are not at their default, as options of the command line.

    >>> changed(Case("cuda", train_size=30, running=True))
    ['--train-size 30', '--running']
    """
    found = []
    for f in fields(case):
        value, option = getattr(case, f.name), f"--{f.name.replace('_', '-')}"
        if f.name != "device" and value != f.default:
            found.append(option if value is True else f"{option} {value}")
    return found


def table(rows: list[Row]) -> str:
    """ROC AUC in percent, for each network that was trained."""
    parts = []
    for row in rows:
        if row["seconds"] is None:
            continue
        columns = list(next(iter(row["auc"].values())))
        parts.append(
            f"{row['machine']}: {row['depth']} layers × {row['rounds']} rounds, width "
            f"{row['width']}, {row['steps']} steps on {row['boards']} boards of "
            f"{row['train_size']}², {common.number(row['seconds'])} s; validation "
            f"{100 * row['val']:.2f}. ROC AUC on fresh boards, by rounds:"
        )
        lines = [
            [f"{size}²", *(f"{100 * found[c]:.2f}" for c in columns)]
            for size, found in row["auc"].items()
        ]
        parts.append(common.markdown(["board", *columns], lines))
    return "\n\n".join(parts)


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--quick", action="store_true", help="small boards and few steps")
    for f in fields(Case):
        if f.name not in ("device", "running"):
            kind: Any = type(f.default)
            parser.add_argument(f"--{f.name.replace('_', '-')}", type=kind, default=None)
    parser.add_argument("--running", action="store_true", default=None)
    parser.add_argument("--sizes", type=common.counts, default=None, help="of fresh boards")
    parser.add_argument("--predict-rounds", type=common.counts, default=None)
    common.add_results_options(parser, "boards.json")
    return parser.parse_args()


def case_of(options: argparse.Namespace) -> Case:
    """What the options say, then what ``--quick`` does, then the defaults."""
    given = {f.name: getattr(options, f.name) for f in fields(Case)}
    said = {name: value for name, value in given.items() if value is not None}
    return Case(**{**(QUICK if options.quick else {}), **said})


def main() -> None:
    options = read_options()
    if options.table:
        common.report(options, SCRIPT, table(read_rows(options.results)))
        return
    case = case_of(options)
    sizes = options.sizes or ([20, 30] if options.quick else [50, 100, 300])
    half = max(1, case.rounds // 2)
    rounds = options.predict_rounds or [half, case.rounds, 2 * case.rounds, 4 * case.rounds]
    rows = common.measure_missing(
        options,
        [case],
        PACKAGES,
        lambda case: common.attempt(lambda: measure(case, sizes, rounds), case.device),
        lambda case, row: f"{asdict(case)} {row.get('note', '')}",
    )
    common.report(options, SCRIPT, table(rows))


if __name__ == "__main__":
    main()
