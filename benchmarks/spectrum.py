"""λ1 and φ at γ = 1, and the path γ = 0, 0.1, …, 1, side by side with what one would pick instead.

    python benchmarks/spectrum.py             # all graphs and methods that are not there yet
    python benchmarks/spectrum.py --graphs tolokers --methods pdgnn,pyg --again
    python benchmarks/spectrum.py --table     # print what was measured, run nothing

Every measurement runs in a process of its own, so that a peer that does not return can be stopped
(``--limit`` seconds, 16 GiB) and peak memory is its own. Imports and reading the graph are not
timed. The peers get the largest component, on which their answer means something; pdgnn gets the
whole graph. A run under a second is repeated for two seconds and the median taken.
Results are kept in ``results/spectrum.json`` with the machine, the versions and the command, and
``--readme FILE`` copies the table between its marks.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import common
from pdgnn.experiments.provenance import machine, read_rows, write_rows

SCRIPT = "spectrum.py"
RESULTS = common.RESULTS / "spectrum.json"
PACKAGES = ("torch", "scipy", "numpy", "torch-geometric", "scikit-learn", "pyamg")
DATASETS = (
    *("chameleon-filtered", "squirrel-filtered", "cora", "citeseer"),
    *("pubmed", "minesweeper", "tolokers"),
)
SCALE = {"metis_mdual": "metis_mdual.npz", "web_google": "web_google.npz"}
GRAPHS = (*DATASETS, "chain", *SCALE)
METHODS = {
    "pdgnn": "pdgnn.eigenpairs, γ = 1",
    "path": "pdgnn.eigenpairs_path, eleven γ",
    "pyg": "PyG AddLaplacianEigenvectorPE (eigsh, SA)",
    "sklearn": "scikit-learn spectral_embedding (arpack)",
    "sklearn-amg": "scikit-learn spectral_embedding (amg)",
    "cuda": "pdgnn.eigenpairs on the GPU, γ = 1",
}
PEERS = ("pyg", "sklearn", "sklearn-amg")
MEMORY_LIMIT = 16 * 2**30
GAMMAS = [i / 10 for i in range(11)]


def load_graph(name: str) -> Any:
    """The named graph; `chain` is a path of 22,662 nodes with short chords, like roman-empire."""
    import pdgnn

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


def largest_component(g: Any) -> sp.csr_array:
    nodes = np.flatnonzero(g.components == np.bincount(g.components).argmax())
    return g.adjacency()[nodes][:, nodes]


def residual(adjacency: sp.csr_array, u: np.ndarray) -> float:
    """‖L_sym u − ρ u‖ of the unit vector u, ρ its Rayleigh quotient."""
    root = sp.diags_array(np.asarray(adjacency.sum(axis=1)).ravel() ** -0.5)
    u = u / np.linalg.norm(u)
    image = u - root @ (adjacency @ (root @ u))
    return float(np.linalg.norm(image - (u @ image) * u))


def run_pdgnn(g: Any, method: str) -> dict[str, Any]:
    import pdgnn

    begun = time.perf_counter()
    if method == "path":
        spectra = pdgnn.eigenpairs_path(g, GAMMAS, cache=False)
    else:
        device = "cuda" if method == "cuda" else "cpu"
        spectra = [pdgnn.eigenpairs(g, gamma=1.0, cache=False, device=device)]
    seconds = time.perf_counter() - begun
    scale = max(1.0, float(g.degree.max()))  # at γ = 0 the operator is L, of norm up to 2 d_max
    worst = max(s.residuals.max() / (scale if s.gamma == 0 else 1.0) for s in spectra)
    first = spectra[-1]  # γ = 1
    return {
        "seconds": seconds,
        "residual": float(worst),
        "solver": first.solver,
        "eigenvalue": float(first.eigenvalues[0]),
    }


def run_pyg(g: Any) -> dict[str, Any]:
    import torch
    from torch_geometric.data import Data
    from torch_geometric.transforms import AddLaplacianEigenvectorPE

    adjacency = largest_component(g)
    edges = np.stack(adjacency.tocoo().coords).astype(np.int64)
    data = Data(edge_index=torch.from_numpy(edges), num_nodes=adjacency.shape[0])
    transform = AddLaplacianEigenvectorPE(k=1, attr_name="pe", is_undirected=True)
    begun = time.perf_counter()
    vector = transform(data).pe[:, 0].double().numpy()
    seconds = time.perf_counter() - begun
    return {"seconds": seconds, "residual": residual(adjacency, vector)}


def run_sklearn(g: Any, solver: str) -> dict[str, Any]:
    from sklearn.manifold import spectral_embedding

    adjacency = largest_component(g)
    begun = time.perf_counter()
    embedding = spectral_embedding(
        sp.csr_matrix(adjacency), n_components=1, eigen_solver=solver, random_state=0
    )
    seconds = time.perf_counter() - begun
    degree = np.asarray(adjacency.sum(axis=1)).ravel()
    return {"seconds": seconds, "residual": residual(adjacency, embedding[:, 0] * degree**0.5)}


def run(g: Any, method: str) -> dict[str, Any]:
    if method == "pyg":
        return run_pyg(g)
    if method.startswith("sklearn"):
        return run_sklearn(g, "amg" if method == "sklearn-amg" else "arpack")
    return run_pdgnn(g, method)


def measure_here(graph: str, method: str) -> dict[str, Any]:
    """Run one measurement in this process."""
    if method in PEERS:  # a factorization may ask for all there is
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    g = load_graph(graph)
    warm_up(method)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rows = [run(g, method)]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    while rows[0]["seconds"] < 1.0 and sum(r["seconds"] for r in rows) < 2.0 and len(rows) < 25:
        rows.append(run(g, method))
    row = sorted(rows, key=lambda r: float(r["seconds"]))[len(rows) // 2]
    return (
        row
        | {"runs": len(rows)}
        | {"nodes": g.num_nodes, "edges": g.num_edges, "peak_mib": round(peak / 1024, 1)}
    )


def warm_up(method: str) -> None:
    """Import what the method needs by a run on a small graph; imports are not what is compared."""
    import pdgnn

    ring = np.arange(400)
    small = pdgnn.Graph.from_edge_index(np.stack([ring, (ring + 1) % 400]))
    if method == "pyg":
        run_pyg(small)
    elif method.startswith("sklearn"):
        run_sklearn(small, "arpack")
        import pyamg  # noqa: F401
    else:
        for solver in ("lu", "lanczos") if method == "cuda" else ("lu", "lanczos", "amg"):
            device = "cuda" if method == "cuda" and solver == "lanczos" else "cpu"
            pdgnn.eigenpairs(small, solver=solver, device=device)


def shown(row: dict[str, Any] | None, eigenvalue: float = math.inf) -> str:
    """Seconds; in brackets where the residual is above λ1, so that the answer says nothing."""
    if row is None:
        return ""
    if row["seconds"] is None:
        return f"> {row['limit']:g}" if "limit" in row else "failed"
    seconds = f"{row['seconds']:.3g}"
    return seconds if row["residual"] < eigenvalue else f"({seconds})"


def table(rows: list[dict[str, Any]], where: str) -> str:
    """What was measured on the machine `where`, and on any GPU, as Markdown."""
    rows = [r for r in rows if r["machine"] == where or r["method"] == "cuda"]
    found = {(r["graph"], r["method"]): r for r in rows}
    methods = [m for m in METHODS if any(r["method"] == m for r in rows)]
    ours = ["best peer / pdgnn", "path / pdgnn", "residual", "peak MiB"]
    heads = ["graph", "nodes", "edges", *methods, *ours]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for graph in GRAPHS:
        own = found.get((graph, "pdgnn"))
        if own is None or own["seconds"] is None:
            continue
        peers = [found[graph, p] for p in PEERS if (graph, p) in found]
        peers = [p for p in peers if p.get("residual", 0.0) < own["eigenvalue"]]
        times = [float(p["seconds"] or p["limit"]) for p in peers if p["seconds"] or "limit" in p]
        best = f"{min(times) / own['seconds']:.1f}" if times else ""
        if times and all(p["seconds"] is None for p in peers):
            best = f"> {best}"
        path = found.get((graph, "path"))
        ratio = f"{path['seconds'] / own['seconds']:.1f}" if path and path["seconds"] else ""
        cells = [shown(found.get((graph, m)), own["eigenvalue"]) for m in methods]
        size = [f"{own['nodes']:,}", f"{own['edges']:,}"]
        cells += [best, ratio, f"{own['residual']:.0e}", f"{own['peak_mib']:.0f}"]
        lines.append("| " + " | ".join([graph, *size, *cells]) + " |")
    lines.append("| sum | | | " + " | ".join(_total(found, m) for m in methods) + " | | | | |")
    return "\n".join(lines)


def _total(found: dict[tuple[str, str], dict[str, Any]], method: str) -> str:
    """The sum over the graphs; runs that were stopped count as long as they were let run."""
    rows = [found[g, method] for g in GRAPHS if (g, method) in found]
    seconds = sum(r["seconds"] or r.get("limit") or 0.0 for r in rows)
    stopped = any(r["seconds"] is None and "limit" in r for r in rows)
    return f"{'> ' if stopped else ''}{seconds:.3g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", type=common.names(GRAPHS), default=GRAPHS)
    parser.add_argument(
        "--methods", type=common.names(METHODS), default="pdgnn,path,pyg,sklearn,sklearn-amg"
    )
    parser.add_argument(
        "--limit", type=float, default=300.0, help="seconds before a run is stopped"
    )
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--again", action="store_true", help="measure anew what is there already")
    parser.add_argument("--table", action="store_true", help="print what was measured, run nothing")
    parser.add_argument("--readme", type=Path, help="copy the table between the marks of a file")
    parser.add_argument("--child", nargs=2, metavar=("GRAPH", "METHOD"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measure_here(*options.child)))
        return
    rows, here = read_rows(options.out), machine(PACKAGES)
    pairs = [(g, m) for g in options.graphs for m in options.methods]
    for graph, method in [] if options.table else pairs:
        same = {"graph": graph, "method": method, "machine": here["machine"]}
        known = [r for r in rows if same.items() <= r.items()]
        if known and not options.again:
            continue
        child = ["--child", graph, method]
        row = {"graph": graph, "method": method} | common.in_child(__file__, child, options.limit)
        row |= {"command": f"python benchmarks/spectrum.py --graphs {graph} --methods {method}"}
        rows = [r for r in rows if r not in known] + [row | here]
        write_rows(options.out, rows)
        print(f"{graph:20} {METHODS[method]:45} {shown(row):>8} s", row.get("note", ""), flush=True)
    own = here["machine"]
    where = own if any(r["machine"] == own for r in rows) else rows[0]["machine"]
    print(f"{where}\n\n{table(rows, where)}")
    if options.readme:
        common.copy_to_readme(SCRIPT, table(rows, where), options.readme)


if __name__ == "__main__":
    main()
