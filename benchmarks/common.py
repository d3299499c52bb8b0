"""What the benchmarks share: clocks, rows of measurements, README's tables."""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median
from typing import Any

from pdgnn.experiments.provenance import Row, machine, read_rows, write_rows

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"

WARM_UP = 3  # calls, so that all is compiled
ROUND, MOST_CALLS = 0.01, 50  # a round of calls takes so many seconds, or is of so many calls
CYCLES = 2e9  # of a GPU in a second, about
MODELS = {"pd-gat": "PD-GAT", "pd-gcn": "PD-GCN"}
"""The models that are measured, by their names in the registry and in the paper."""
PRECISIONS = ("float32", "tf32", "bfloat16", "float64")


def in_child(
    script: str, arguments: Sequence[str], limit: float, environment: dict[str, str] | None = None
) -> Row:
    """What `script` prints as JSON, run by a process of its own, stopped after `limit` seconds."""
    env = {**os.environ, **(environment or {})}
    command = [sys.executable, "-W", "ignore", script, *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=limit, check=False, env=env
        )
    except subprocess.TimeoutExpired:
        return {"seconds": None, "limit": limit, "note": f"stopped after {limit:g} s"}
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        return {"seconds": None, "note": last[:160]}
    answer: Row = json.loads(done.stdout.splitlines()[-1])
    return answer


def wait(device: str) -> None:
    import torch

    if device == "cuda":
        torch.cuda.synchronize()


def free(device: str) -> None:
    """Give back the memory that nothing holds any more."""
    import torch

    gc.collect()
    wait(device)  # raises where an earlier call has broken the device
    if device == "cuda":
        torch.cuda.empty_cache()
    elif platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)


def attempt(measure: Callable[[], Row], device: str) -> Row:
    """What `measure` gives, or a row that says why there is none; memory is free afterwards."""
    import torch

    try:
        row = measure()
    except Exception as error:
        said = (str(error).strip().splitlines() or [""])[0]
        full = isinstance(error, MemoryError | torch.OutOfMemoryError) or any(
            words in said.lower() for words in ("out of memory", "can't allocate memory")
        )
        note = "out of memory" if full else f"{type(error).__name__}: {said}"[:160]
        row = {"seconds": None, "note": note}
    free(device)  # here, as the error held what was allocated
    return row


def seconds_of(
    call: Callable[[], Any], device: str, *, least: float = 0.2, queued: bool = False
) -> float:
    """Seconds of a call: the median of rounds of calls that take `least` seconds in all.

    A GPU's own events tell them. With `queued` it is made to wait until the calls of a round are in
    its queue, so that what the host needs to launch them is not counted.
    """
    for _ in range(WARM_UP):
        call()
    wait(device)
    begun = time.perf_counter()
    call()
    launch = time.perf_counter() - begun
    wait(device)
    each = time.perf_counter() - begun
    count = max(1, min(MOST_CALLS, int(ROUND / max(each, 1e-9))))
    ahead = min(0.1, 2 * launch * count) if queued else 0.0
    rounds: list[float] = []
    while len(rounds) < 3 or sum(rounds) < least:
        rounds.append(round_seconds(call, count, device, ahead))
    return median(rounds) / count


def round_seconds(call: Callable[[], Any], count: int, device: str, ahead: float) -> float:
    """Seconds of `count` calls, issued while a GPU idles for about `ahead` seconds."""
    import torch

    if device != "cuda":
        begun = time.perf_counter()
        for _ in range(count):
            call()
        return time.perf_counter() - begun
    event: Any = torch.cuda.Event
    start, end = (event(enable_timing=True) for _ in range(2))
    if ahead:
        torch.cuda._sleep(int(ahead * CYCLES))  # type: ignore[no-untyped-call]
    start.record()
    for _ in range(count):
        call()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) / 1000


def copy_rate(device: str, gib: float, least: float) -> float:
    """Bytes that a copy reads and writes in a second."""
    import torch

    a = torch.ones(int(gib * 2**28), device=device)
    b = torch.empty_like(a)
    seconds = seconds_of(lambda: b.copy_(a), device, least=least, queued=True)
    return 2 * a.numel() * a.element_size() / seconds


def held_bytes(device: str) -> int:
    """Bytes held now: by tensors on a GPU, by this process on a CPU."""
    import torch

    return torch.cuda.memory_allocated() if device == "cuda" else process_bytes("VmRSS")


def peak_bytes(call: Callable[[], Any], device: str) -> int:
    """The most bytes held at any time of the call, those held before it included."""
    import torch

    wait(device)
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    else:
        Path("/proc/self/clear_refs").write_text("5")  # begins VmHWM anew
    call()
    wait(device)
    return torch.cuda.max_memory_allocated() if device == "cuda" else process_bytes("VmHWM")


def process_bytes(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) * 1024


def random_edges(nodes: int, count: int, device: str) -> Any:
    """`count` directed edges between nodes drawn at random, the same ones for the same device."""
    import torch

    from pdgnn.ops import Edges

    generator = torch.Generator(device).manual_seed(0)
    index = torch.randint(nodes, (2, count), generator=generator, device=device)
    return replace(Edges.from_edge_index(index, num_nodes=nodes).trimmed(), order=None)


def model_inputs(graph: Any, spec: Any, device: str = "cpu") -> dict[str, Any]:
    """What the module of `spec` is called with on `graph`, in float32."""
    import torch

    from pdgnn.models import MODELS as REGISTRY

    found = REGISTRY[spec.model].prepare(graph, torch.empty(0), spec)
    return {
        n: (v.float() if isinstance(v, torch.Tensor) else v).to(device) for n, v in found.items()
    }


def measure_missing(
    options: argparse.Namespace,
    cases: Iterable[Any],
    packages: Sequence[str],
    measure: Callable[[Any], Row],
    say: Callable[[Any, Row], str],
) -> list[Row]:
    """The rows of ``--results``, with what `measure` gives for those of `cases` that they lack.

    A case is a dataclass; its row on this machine is measured anew with ``--again``. Every row is
    kept as soon as it is there, and told by `say`.
    """
    rows, here = read_rows(options.results), machine(packages)
    for case in cases:
        known = alike(rows, asdict(case) | {"machine": here["machine"]})
        if known and not options.again:
            continue
        row = asdict(case) | measure(case)
        rows = [r for r in rows if r not in known] + [row | here]
        write_rows(options.results, rows)
        print(say(case, row), flush=True)
    return rows


def report(options: argparse.Namespace, script: str, text: str) -> None:
    """Print the tables, and copy them to where ``--readme`` says."""
    print(text)
    if options.readme:
        copy_to_readme(script, text, options.readme)


def alike(rows: Sequence[Row], same: Row) -> list[Row]:
    """The rows that have what `same` has."""
    return [row for row in rows if same.items() <= row.items()]


def number(value: float) -> str:
    """Three digits, or all before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def markdown(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table."""
    whole = [heads, ["---"] * len(heads), *lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in whole)


def copy_to_readme(script: str, text: str, readme: Path = ROOT / "README.md") -> None:
    """Put `text` between the two marks that the file has for `script`."""
    copied = between_marks(f"benchmarks/{script} --table", text, readme.read_text(encoding="utf-8"))
    if copied is None:
        raise SystemExit(f"{readme} has no place for the table of {script}; give it the marks")
    readme.write_text(copied, encoding="utf-8")


def between_marks(name: str, text: str, page: str) -> str | None:
    """`page` with `text` between ``<!-- name -->`` and ``<!-- end -->``; None if it lacks them.

    >>> between_marks("a", "new", "x <!-- a --> old <!-- end --> y")
    'x <!-- a -->\\nnew\\n<!-- end --> y'
    """
    begin, end = f"<!-- {name} -->", "<!-- end -->"
    head, found, rest = page.partition(begin)
    _, closed, tail = rest.partition(end)
    return f"{head}{begin}\n{text}\n{end}{tail}" if found and closed else None


def names(known: Iterable[str]) -> Callable[[str], list[str]]:
    """The type of an option that takes some of the `known` names, separated by commas.

    Of a dict the keys are given; its values are other names for them. An unknown name ends the
    program with one line.

    >>> names(MODELS)("PD-GAT,pd-gcn")
    ['pd-gat', 'pd-gcn']
    """
    known = known if isinstance(known, dict) else {name: name for name in known}
    meant = {name.lower(): key for key, value in known.items() for name in (key, value)}

    def chosen(text: str) -> list[str]:
        given = text.split(",")
        if unknown := [name for name in given if name.lower() not in meant]:
            raise SystemExit(f"unknown: {', '.join(unknown)}; choose of {', '.join(known)}")
        return [meant[name.lower()] for name in given]

    return chosen


def counts(text: str) -> list[int]:
    """The type of an option that takes whole numbers, separated by commas.

    >>> counts("64,1e6")
    [64, 1000000]
    """
    try:
        return [int(float(number)) for number in text.split(",")]
    except (ValueError, OverflowError):
        raise SystemExit(f"not whole numbers separated by commas: {text}") from None


def add_results_options(parser: argparse.ArgumentParser, name: str) -> None:
    """Where rows are kept, and what is done with them."""
    parser.add_argument("--results", type=Path, default=RESULTS / name)
    parser.add_argument("--again", action="store_true", help="measure anew what is there already")
    parser.add_argument("--table", action="store_true", help="print what was measured, run nothing")
    parser.add_argument(
        "--readme",
        type=Path,
        nargs="?",
        const=ROOT / "README.md",
        metavar="FILE",
        help="copy the tables between its marks",
    )
