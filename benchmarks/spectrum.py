"""The k smallest eigenpairs at γ = 1, and the path γ = 0, 0.1, …, 1, beside what else one calls.

    python benchmarks/spectrum.py             # ten graphs, all methods that are not there yet
    python benchmarks/spectrum.py --family 3  # sixty graphs that seed 3 draws
    python benchmarks/spectrum.py --graphs tolokers --methods pdgnn,eigsh --k 8 --again
    python benchmarks/spectrum.py --threads 1 # where other work keeps some of the cores busy
    python benchmarks/spectrum.py --table     # print what was measured, run nothing

A process of its own measures one method on one graph, so that a peer that does not return can be
stopped (after ``--times`` what the fastest took, not before 3 s and 1.5 times what pdgnn took, and
at the latest after ``--limit`` seconds; 16 GiB) and peak memory is its own. pdgnn comes first, the
others in another order on every graph. Calls are repeated for 0.3 s; pdgnn and the peers that come
near it or the best are measured once more in a second round, after all the others: the lesser of
both medians is kept, as a busy machine only ever adds.
Imports and reading the graph are not timed. Peers are called as their users do, and such that
residuals are at most 1e-8; residuals and missed eigenvalues are judged apart from all of them.
Results are kept in ``results/spectrum.json`` with the machine, the versions and the command, and
``--readme FILE`` copies the tables between its marks.
"""

from __future__ import annotations

import argparse
import os
import resource
from collections.abc import Sequence
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

import common
import families
import isolated
import spectrum_tables
from pdgnn import InputError
from pdgnn.experiments.provenance import Row, machine, read_rows, write_rows
from spectrum_peers import METHODS, PEERS, Part, measure, warm_up

SCRIPT = "spectrum.py"
PACKAGES = ("torch", "scipy", "numpy", "torch-geometric", "scikit-learn", "pyamg")
DATASETS = (
    *("chameleon-filtered", "squirrel-filtered", "cora", "citeseer"),
    *("pubmed", "minesweeper", "tolokers"),
)
SCALE = {"metis_mdual": "metis_mdual.npz", "web_google": "web_google.npz"}
GRAPHS = (*DATASETS, "chain", *SCALE)
KS = (1, 8, 32)
PATH_KS = (1,)
LEAST, SLOWER = 3.0, 1.5
"""A peer is let run for so many seconds, and for so many times what pdgnn took."""
NEAR, AGAIN = 2.0, 1.0
"""The second round is for what takes so many times pdgnn or the best peer at most, and less than
so many seconds."""
MEMORY_LIMIT = 16 * 2**30
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def load_graph(name: str) -> Any:
    """The named graph; `chain` is a path of 22,662 nodes with short chords, like roman-empire."""
    import pdgnn

    if spectrum_tables.is_member(name):
        return families.drawn(name)
    root = Path(os.environ.get("PDGNN_DATA", "."))
    if name == "chain":
        rng = np.random.default_rng(0)
        n, chords = 22_662, 10_266
        path = np.stack([np.arange(n - 1), np.arange(1, n)])
        start = rng.integers(0, n - 8, chords)
        far = np.stack([start, start + rng.integers(2, 8, chords)])
        return pdgnn.Graph.from_edge_index(np.concatenate([path, far], axis=1))
    if name in SCALE:
        return pdgnn.Graph.load(root / "scale" / SCALE[name])
    return pdgnn.Graph.from_data(pdgnn.datasets.load(name))


def work(connection: Connection, what: tuple[str, str], ks: Sequence[int]) -> None:
    """Measure a method on a graph in this process, for each k."""
    graph, method = what
    if method in PEERS:  # a factorization may ask for all there is
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    g = load_graph(graph)
    part = Part.of(g)
    size = {"nodes": part.graph.num_nodes, "edges": part.graph.num_edges}
    for small in ("small-world/400/seed0", "power-law-degrees/400/seed0"):
        warm_up(families.drawn(small), method)
    before = peak_mib()
    connection.send(None)
    for k in ks:
        call = partial(measure, g, part, method, k, returned=partial(connection.send, None))
        row = common.attempt(call, "cpu")
        connection.send(row | size | {"peak_mib": round(peak_mib() - before, 1)})


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class Bench:
    """The rows that are there, and those that are added."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.rows, self.here = read_rows(options.results), machine(PACKAGES)

    def known(self, graph: str, method: str, k: int) -> Row | None:
        same = {"graph": graph, "method": method, "k": k, "machine": self.here["machine"]}
        return next(iter(common.alike(self.rows, same)), None)

    def missing(self, graph: str, method: str) -> list[int]:
        """The k that are to be measured in the first round."""
        ks = [k for k in self.options.k if method != "path" or k in PATH_KS]
        return [k for k in ks if self.options.again or self.known(graph, method, k) is None]

    def limit(self, graph: str, method: str, k: int) -> float:
        """Seconds after which a method is stopped; no peer before it is surely slower than ours."""
        most, own = float(self.options.limit), self.seconds(graph, "pdgnn", k)
        if method not in PEERS or own == np.inf:
            return most
        fastest = min(own, self.best(graph, k))
        return min(most, max(LEAST, SLOWER * own, float(self.options.times) * fastest))

    def best(self, graph: str, k: int) -> float:
        """Seconds of the best peer so far."""
        rows = common.alike(self.rows, {"graph": graph, "k": k, "machine": self.here["machine"]})
        best = spectrum_tables.Measured(rows).best(graph, k)
        return self.seconds(graph, best["method"], k) if best else np.inf

    def run(self, graph: str, methods: Sequence[str]) -> None:
        """Both rounds on a graph."""
        wanted = {method: ks for method in methods if (ks := self.missing(graph, method))}
        if wanted:
            try:
                g = load_graph(graph)  # here, where it can say what is missing
            except (InputError, OSError) as error:
                raise SystemExit(f"error: {error}") from error
            if g.num_components == 1:
                wanted.pop("whole", None)
        for method, ks in wanted.items():
            self.measure(graph, method, ks)
        for method, ks in wanted.items() if self.options.rounds > 1 else ():
            if again := [k for k in ks if self.is_near(graph, method, k)]:
                self.measure(graph, method, again, better=True)

    def is_near(self, graph: str, method: str, k: int) -> bool:
        """Whether a second round may change how the best peer compares."""
        seconds = self.seconds(graph, method, k)
        times = [t for t in (self.seconds(graph, "pdgnn", k), self.best(graph, k)) if t < np.inf]
        near = method not in PEERS or seconds <= NEAR * max(times, default=np.inf)
        return near and seconds < AGAIN

    def seconds(self, graph: str, method: str, k: int) -> float:
        row = self.known(graph, method, k)
        return float(row["seconds"] or np.inf) if row else np.inf

    def measure(self, graph: str, method: str, ks: list[int], *, better: bool = False) -> None:
        """Add the rows of a process, in the second round only those that are better."""
        limits = [self.limit(graph, method, k) for k in ks]
        found = isolated.measured(work, (graph, method), ks, limits)
        for k, fresh in zip(ks, found, strict=True):
            if better and (fresh["seconds"] or np.inf) >= self.seconds(graph, method, k):
                continue
            row = {"graph": graph, "method": method, "k": k} | fresh
            threads = f" --threads {self.options.threads}" if self.options.threads else ""
            command = f"python benchmarks/{SCRIPT} --graphs {graph} --methods {method}"
            row["command"] = command + threads
            known = self.known(graph, method, k)
            self.rows = [r for r in self.rows if r is not known] + [row | self.here]
            print(f"{graph:36} {method:18} k = {k:<3} {told(row)}", flush=True)
            write_rows(self.options.results, self.rows)


def told(row: Row) -> str:
    if row["seconds"] is None:
        return str(row["note"])
    return f"{row['seconds']:.3g} s, residual {row['residual']:.0e}"


def graph_names(text: str) -> list[str]:
    """The type of an option that takes some of the ten graphs, or members of a family."""
    given = text.split(",")
    single = ",".join(name for name in given if not is_drawn(name))
    if single:
        common.names(GRAPHS)(single)
    return given


def is_drawn(name: str) -> bool:
    kind, *rest = name.split("/")
    return kind in families.GENERATORS and len(rest) == 2


def ordered(methods: Sequence[str], turn: int) -> list[str]:
    """pdgnn first, as it sets the limits; the others begin with another one at every turn."""
    own = [m for m in methods if m == "pdgnn"]
    others = [m for m in methods if m != "pdgnn"]
    turn %= max(1, len(others))
    return own + others[turn:] + others[:turn]


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--graphs", type=graph_names, help="some of the ten, or of a family")
    parser.add_argument("--family", type=int, metavar="SEED", help="the sixty graphs of a seed")
    parser.add_argument("--sizes", type=common.counts, default=list(families.SIZES))
    parser.add_argument("--k", type=common.counts, default=list(KS))
    usual = [method for method in METHODS if method != "cuda"]
    parser.add_argument("--methods", type=common.names(METHODS), default=usual)
    parser.add_argument("--limit", type=float, default=300.0, help="seconds of any run")
    parser.add_argument(
        "--times", type=float, default=4.0, help="what a peer may take over the fastest"
    )
    parser.add_argument("--rounds", type=int, default=2, help="1 measures all once")
    parser.add_argument("--threads", type=int, help="of each process; as many as there are cores")
    common.add_results_options(parser, "spectrum.json")
    options = parser.parse_args()
    drawn = [] if options.family is None else families.members(options.family, options.sizes)
    options.graphs = [*(options.graphs or ([] if drawn else GRAPHS)), *drawn]
    return options


def main() -> None:
    options = read_options()
    if options.threads:  # read by what the processes import
        os.environ.update(dict.fromkeys(THREADS, str(options.threads)))
    bench = Bench(options)
    for turn, graph in enumerate([] if options.table else options.graphs):
        bench.run(graph, ordered(options.methods, turn))
    rows, own = bench.rows, bench.here["machine"]
    if not rows:
        return
    where = own if common.alike(rows, {"machine": own}) else rows[0]["machine"]
    text = spectrum_tables.tables(rows, GRAPHS, where)
    print(where)
    common.report(options, SCRIPT, text)
    here = common.alike(rows, {"machine": where})
    seeds = spectrum_tables.seeds(here)
    asked = f"seed{options.family}"
    if seeds:  # the family that was asked for, or the last
        drawn = spectrum_tables.of_seed(here, asked if asked in seeds else seeds[-1])
        try:
            spectrum_tables.draw(drawn, options.results)
        except ImportError as error:  # the rows are kept all the same
            print(f"not drawn: {error}; --table draws where Matplotlib is installed")


if __name__ == "__main__":
    main()
