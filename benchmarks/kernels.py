"""How near the kernels come to the bandwidth of memory, and the layer of PD-GAT beside PyG's.

    python benchmarks/kernels.py --device cuda                 # what is not there yet
    python benchmarks/kernels.py --device cpu --edges 1e5 --dtypes float32
    python benchmarks/kernels.py --kernels attend,layer --graphs tolokers --again
    python benchmarks/kernels.py --table                       # prints, measures nothing

Kernels have 8 heads of 64 channels, `aggregate` one of 512. The graphs are tolokers, tolokers
rewired (one node is joined with all others), and one of ``--edges`` random edges between a
twentieth as many nodes. Weights and features of edges are float32 in all rows, as models give them.

**The fewest bytes.** With E edges, N nodes, H heads and C channels, a *row* is H · C numbers of the
type at hand. Every sum over edges reads one row for each of its edges, all else is read or written
once:

- aggregate: E rows of x, E weights; N rows written.
- aggregate-dx (gradient to x): E rows of g, E weights; N rows written.
- aggregate-dw (to the weights): E rows of x, N rows of g; E weights written.
- attend: E rows of x, E · H scores of sources, N · H of targets, 2 E features; N rows and N · H
  logarithms of sums (float32) written.
- attend-backward: E rows of g, N rows of x and of the output; E · H scores of targets, their
  logarithms of sums and ⟨g, output⟩ (float32), N · H scores of sources, 2 E features; N rows and
  2 N · H gradients to scores written.
- attend-dot: E rows of k and of v, N of q; N rows and N · H logarithms of sums written.
- attend-dot-backward: E rows of g and of q for the sums at sources, E of k for those at targets,
  N of k, v and the output; E · H logarithms of sums and ⟨g, output⟩, E · H gradients to the scores
  written by one sum and read by the other; 3 N rows written.

To these come the indices that are read: E + N + 1 where edges are grouped by target; 2 E + N + 1
where they are grouped by source, as a per-edge value then is found by its slot; both for
attend-dot-backward. Nothing is counted for what a kernel keeps for itself.

The bytes over the seconds are compared with a copy of ``--copy-gib`` GiB of float32 in the same
run, its reads and writes counted. A share above 100 % means that rows were found in the cache.
Seconds are those of the device alone, from when a round of calls is in its queue. A forward pass is
one of training, which keeps what the backward pass needs; a backward pass is torch.autograd.grad.
`torch.sparse` is a CSR matrix times a dense one, for aggregate-dx one transposed beforehand.

**layer** is PDGATConv(512, 64, heads=8, edge_dim=2) with the weights of the GATConv beside it,
forward and backward to x and all parameters, as the caller sees it: launches are counted. PDGATConv
is given :class:`pdgnn.ops.Edges`, GATConv an edge_index sorted by target. Memory is the peak beyond
what was held before the call.

Rows are kept in ``results/kernels.json``; ``--readme`` copies the tables into the README.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import Any

import common
from pdgnn.experiments.provenance import Row, read_rows

SCRIPT = "kernels.py"
PACKAGES = ("pdgnn", "torch", "torch-geometric", "triton", "numba", "numpy")
LAYER = "layer"
KERNEL_GRAPHS = ("tolokers", "tolokers-rewired", "random")
LAYER_GRAPHS = ("chameleon-filtered", "squirrel-filtered", "minesweeper", "tolokers")
DTYPES = ("float32", "bfloat16")
HEADS, CHANNELS, FEATURES = 8, 64, 2
PER_NODE = 20  # edges of the random graph
WIDE = 4  # bytes of what is float32 in any case

Call = Callable[[], object]


@dataclass(frozen=True)
class Case:
    """What is measured; a row of the same case and machine is not measured again."""

    graph: str
    kernel: str
    side: str
    dtype: str
    device: str
    heads: int
    channels: int


# How often E and N are counted: as rows, as scores in the type of x, as scores in float32; then the
# numbers on an edge, and which layouts are read: grouped by target, by source.
COUNTS = {
    "aggregate": ((1, 1), (0, 0), (0, 0), 1, (1, 0)),
    "aggregate-dx": ((1, 1), (0, 0), (0, 0), 1, (0, 1)),
    "aggregate-dw": ((1, 1), (0, 0), (0, 0), 1, (1, 0)),
    "attend": ((1, 1), (1, 1), (0, 1), FEATURES, (1, 0)),
    "attend-backward": ((1, 3), (1, 3), (2, 0), FEATURES, (0, 1)),
    "attend-dot": ((2, 2), (0, 0), (0, 1), 0, (1, 0)),
    "attend-dot-backward": ((3, 6), (0, 0), (4, 0), 0, (1, 1)),
}


def fewest_bytes(
    kernel: str, edges: int, nodes: int, *, heads: int, channels: int, item: int, index: int
) -> int:
    """The bytes that a kernel must move; `item` and `index` are those of a number and an index."""
    rows, scores, wide_scores, on_edge, (by_target, by_source) = COUNTS[kernel]

    def counted(times: tuple[int, int]) -> int:
        return times[0] * edges + times[1] * nodes

    numbers = heads * channels * counted(rows) + heads * counted(scores)
    wide = heads * counted(wide_scores) + on_edge * edges
    indices = by_target * (edges + nodes + 1) + by_source * (2 * edges + nodes + 1)
    return item * numbers + WIDE * wide + index * indices


@lru_cache(maxsize=1)
def open_graph(name: str, device: str) -> tuple[Any, Any]:
    """The edges on the device, and their two features ``[E, 2]``."""
    import torch

    kind, _, size = name.partition(":")
    if kind == "random":
        edges = common.random_edges(max(1, int(size) // PER_NODE), int(size), device)
        generator = torch.Generator(device).manual_seed(1)
        shape = (edges.num_edges, FEATURES)
        return edges, torch.rand(shape, generator=generator, device=device)
    from pdgnn.experiments.paper import scope
    from pdgnn.io.sources import open_source
    from pdgnn.training import RunSpec

    base = name.removesuffix("-rewired")
    rewired = name != base
    alpha, gamma = scope("PD-GAT (rewired)" if rewired else "PD-GAT", base) or (0.5, 0.5)
    spec = RunSpec(dataset=base, model="pd-gat", alpha=alpha, gamma=gamma, rewired=rewired)
    inputs = common.model_inputs(open_source(base).graph, spec, device)
    return inputs["edges"], inputs["edge_attr"]


def drawer(case: Case) -> Callable[..., Any]:
    """A function that draws tensors of the type of the case, the same ones every time."""
    import torch

    generator = torch.Generator(case.device).manual_seed(2)

    def draw(*shape: int, dtype: str = case.dtype) -> Any:
        kind = getattr(torch, dtype)
        return torch.randn(shape, generator=generator, device=case.device, dtype=kind)

    return draw


def kernel_call(case: Case, edges: Any, attr: Any) -> Call:
    """One call of the kernel on inputs that are ready."""
    from pdgnn.ops import aggregate, attend, attend_dot

    draw, backward = drawer(case), case.kernel.endswith("-backward")
    nodes, shape = edges.num_sources, (edges.num_sources, case.heads, case.channels)
    if case.kernel.startswith("aggregate"):
        x, weight = draw(*shape), draw(edges.num_edges, 1, dtype="float32")
        wanted = {"aggregate-dx": [x], "aggregate-dw": [weight]}.get(case.kernel, [])
        return forward_or_backward(lambda: aggregate(x, weight, edges), wanted)
    if case.kernel.startswith("attend-dot"):
        q, k, v = (draw(*shape) for _ in range(3))
        scale = case.channels**-0.5
        wanted = [q, k, v] if backward else []
        return forward_or_backward(lambda: attend_dot(q, k, v, edges, scale=scale), wanted)
    x, a_src, a_dst = draw(*shape), draw(nodes, case.heads), draw(nodes, case.heads)
    w_edge = draw(case.heads, FEATURES)
    wanted = [x, a_src, a_dst, w_edge] if backward else []
    return forward_or_backward(
        lambda: attend(x, a_src, a_dst, edges, edge_attr=attr, w_edge=w_edge), wanted
    )


def forward_or_backward(forward: Callable[[], Any], wanted: list[Any]) -> Call:
    """The call itself, or with gradients `wanted` its backward pass alone."""
    import torch

    if not wanted:
        return forward
    for leaf in wanted:
        leaf.requires_grad_()
    out = forward()
    g = torch.randn_like(out)
    return lambda: torch.autograd.grad(out, wanted, g, retain_graph=True)


def sparse_call(case: Case, edges: Any, _: Any) -> Call:
    """The same as `aggregate` or its gradient to x, by a product with a torch.sparse matrix."""
    import torch

    draw = drawer(case)
    x, weight = draw(edges.num_sources, case.heads * case.channels), draw(edges.num_edges)
    size = (edges.num_targets, edges.num_sources)
    parts = (edges.rowptr, edges.col, weight)
    if case.kernel == "aggregate-dx":
        size, parts = size[::-1], (edges.t_rowptr, edges.t_row, weight[edges.t_slot.long()])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support")
        matrix = torch.sparse_csr_tensor(*parts, size, check_invariants=False)
    return lambda: matrix @ x


def layer_call(case: Case, edges: Any, attr: Any) -> Call:
    """Forward and backward of one layer; both sides have the same weights."""
    import torch
    from torch_geometric.nn import GATConv

    from pdgnn.nn import PDGATConv

    width, (heads, channels) = case.heads * case.channels, (case.heads, case.channels)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        peer = GATConv(width, channels, heads=heads, edge_dim=FEATURES, add_self_loops=False)
    layer, structure = peer, edges
    if case.side == "pdgnn":
        layer = PDGATConv(width, channels, heads=heads, edge_dim=FEATURES, add_self_loops=False)
        layer.load_state_dict(peer.state_dict())
    else:
        structure = torch.stack([edges.col, edges.row]).long()  # [2, E]
    layer.to(case.device, getattr(torch, case.dtype))
    draw = drawer(case)
    x, g = draw(edges.num_sources, width).requires_grad_(), draw(edges.num_targets, width)
    wanted, features = [x, *layer.parameters()], attr.to(x.dtype)
    return lambda: torch.autograd.grad(layer(x, structure, features), wanted, g)


def measure(case: Case, least: float) -> Row:
    """Seconds of a call, with the fewest bytes of a kernel or the peak memory of a layer."""
    import torch

    edges, attr = open_graph(case.graph, case.device)
    size = {"edges": edges.num_edges, "nodes": edges.num_targets}
    if case.kernel == LAYER:
        call = layer_call(case, edges, attr)
        seconds = common.seconds_of(call, case.device, least=least)
        common.free(case.device)
        before = common.held_bytes(case.device)
        peak = common.peak_bytes(call, case.device) - before
        return {"seconds": seconds, "peak_mib": round(peak / 2**20, 2)} | size
    make = kernel_call if case.side == "pdgnn" else sparse_call
    seconds = common.seconds_of(make(case, edges, attr), case.device, least=least, queued=True)
    numbers = {"item": getattr(torch, case.dtype).itemsize, "index": edges.col.element_size()}
    sizes = {"heads": case.heads, "channels": case.channels} | numbers
    return {"seconds": seconds, "bytes": fewest_bytes(case.kernel, *size.values(), **sizes)} | size


def cases(options: argparse.Namespace) -> Iterator[Case]:
    """Graph by graph, the sides of a case one after the other."""
    wanted = options.kernels
    kinds = ([k for k in wanted if k != LAYER], [k for k in wanted if k == LAYER])
    for kernels, default in zip(kinds, (KERNEL_GRAPHS, LAYER_GRAPHS), strict=True):
        for graph in options.graphs.split(",") if options.graphs else default:
            name = f"random:{options.edges[0]}" if graph == "random" else graph
            for dtype in options.dtypes:
                for kernel in kernels:
                    for side in sides(kernel):
                        yield Case(name, kernel, side, dtype, options.device, *heads_of(kernel))


def sides(kernel: str) -> tuple[str, ...]:
    if kernel in ("aggregate", "aggregate-dx"):
        return "pdgnn", "torch.sparse"
    return ("pdgnn", "pyg") if kernel == LAYER else ("pdgnn",)


def heads_of(kernel: str) -> tuple[int, int]:
    return (1, HEADS * CHANNELS) if kernel.startswith("aggregate") else (HEADS, CHANNELS)


def measure_missing(options: argparse.Namespace) -> list[Row]:
    @cache
    def rate() -> float:
        return common.copy_rate(options.device, options.copy_gib, options.least)

    def row(case: Case) -> Row:
        copied = rate()
        found = common.attempt(partial(measure, case, options.least), case.device)
        found["copy_rate"] = copied
        found["command"] = (
            f"python benchmarks/{SCRIPT} --device {case.device} --graphs {case.graph} "
            f"--kernels {case.kernel} --dtypes {case.dtype} --copy-gib {options.copy_gib:g}"
        )
        return found

    def say(case: Case, row: Row) -> str:
        name = f"{case.graph} {case.kernel} {case.dtype} {case.side}"
        return f"{name:60} {milliseconds(row):>14} ms  {row.get('note', '')}"

    return common.measure_missing(options, cases(options), PACKAGES, row, say)


def table(rows: list[Row]) -> str:
    """What was measured, as Markdown: the kernels and the layers of each machine and device."""
    kinds = dict.fromkeys((r["machine"], r["device"]) for r in rows)
    parts = []
    for machine, device in sorted(kinds, key=lambda kind: (kind[1] != "cuda", kind[0])):
        own = common.alike(rows, {"machine": machine, "device": device})
        rates = sorted(r["copy_rate"] / 1e9 for r in own)
        measured = " to ".join(dict.fromkeys(common.number(r) for r in (rates[0], rates[-1])))
        parts.append(
            f"{machine} ({'GPU' if device == 'cuda' else 'CPU'}): a copy reads and writes "
            f"{measured} GB/s."
        )
        layers = [r for r in own if r["kernel"] == LAYER]
        kernels = [r for r in own if r["kernel"] != LAYER]
        parts += [kernel_table(kernels)] if kernels else []
        parts += [layer_table(layers)] if layers else []
    return "\n\n".join(parts)


def by_sides(rows: list[Row]) -> Iterator[tuple[Row, dict[str, Row]]]:
    """The rows of one graph, kernel and type, by side, behind one of them."""
    graphs, dtypes = (dict.fromkeys(r[key] for r in rows) for key in ("graph", "dtype"))
    for graph in graphs:
        for kernel in (*COUNTS, LAYER):
            for dtype in dtypes:
                same = {"graph": graph, "kernel": kernel, "dtype": dtype}
                found = {r["side"]: r for r in common.alike(rows, same)}
                if found:
                    yield next(iter(found.values())), found


def kernel_table(rows: list[Row]) -> str:
    heads = ["graph", "edges", "kernel", "type", "fewest GB", "ms", "GB/s", "share of a copy"]
    lines = []
    for first, found in by_sides(rows):
        own, peer = found.get("pdgnn", {}), found.get("torch.sparse")
        cells = [first["graph"].partition(":")[0], edges_of(found), first["kernel"], first["dtype"]]
        rate = own["bytes"] / own["seconds"] if own.get("seconds") else None
        cells += [f"{own['bytes'] / 1e9:.3g}" if rate else "", milliseconds(own)]
        cells += [common.number(rate / 1e9), f"{rate / own['copy_rate']:.0%}"] if rate else ["", ""]
        lines.append([*cells, milliseconds(peer), ratio(peer, own, "seconds")])
    return common.markdown([*heads, "torch.sparse ms", "torch.sparse / pdgnn"], lines)


def layer_table(rows: list[Row]) -> str:
    heads = ["graph", "edges", "type", "PDGATConv ms", "GATConv ms", "ratio"]
    lines = []
    for first, found in by_sides(rows):
        own, peer = found.get("pdgnn"), found.get("pyg")
        cells = [first["graph"].partition(":")[0], edges_of(found), first["dtype"]]
        cells += [milliseconds(own), milliseconds(peer), ratio(peer, own, "seconds")]
        cells += [mebibytes(own), mebibytes(peer), ratio(peer, own, "peak_mib")]
        lines.append(cells)
    return common.markdown([*heads, "PDGATConv MiB", "GATConv MiB", "ratio"], lines)


def edges_of(found: dict[str, Row]) -> str:
    known = [r["edges"] for r in found.values() if "edges" in r]
    return f"{known[0]:,}" if known else ""


def milliseconds(row: Row | None) -> str:
    if not row:
        return ""
    if row["seconds"] is not None:
        return common.number(1000 * row["seconds"])
    return "out of memory" if row["note"] == "out of memory" else "failed"


def mebibytes(row: Row | None) -> str:
    return common.number(row["peak_mib"]) if row and row["seconds"] is not None else ""


def ratio(peer: Row | None, own: Row | None, what: str) -> str:
    """The peer's over pdgnn's, where both were measured."""
    if not peer or not own or peer["seconds"] is None or not own.get(what):
        return ""
    return f"{peer[what] / own[what]:.1f}"


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    kernels = (*COUNTS, LAYER)
    parser.add_argument("--kernels", type=common.names(kernels), default=kernels)
    parser.add_argument("--graphs", help="of kernels and layers; default: see above")
    parser.add_argument("--dtypes", type=common.names(common.PRECISIONS), default=DTYPES)
    parser.add_argument("--edges", type=common.counts, default="20e6", help="of the random graph")
    parser.add_argument("--least", type=float, default=0.2, help="seconds of a measurement")
    parser.add_argument("--copy-gib", type=float, default=2.0, help="copied to measure bandwidth")
    common.add_results_options(parser, "kernels.json")
    return parser.parse_args()


def main() -> None:
    options = read_options()
    rows = read_rows(options.results) if options.table else measure_missing(options)
    common.report(options, SCRIPT, table(rows))


if __name__ == "__main__":
    main()
