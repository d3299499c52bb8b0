"""Sums over edges of rows of few channels, which MKL's sparse product does where torch has it."""

import pytest
import torch

from pdgnn.ops import Edges, cpu, reference
from test_ops_cpu import F64, KINDS, TWO_INTO_ONE, edges, same


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("channels", [1, 2, 7, 16, 17])
def test_with_and_without_mkl(kind, heads, channels, monkeypatch):
    structure = edges(kind, torch.Generator().manual_seed(7))
    x = torch.randn(3, structure.num_sources, heads, channels, dtype=F64)
    g = torch.randn(3, structure.num_targets, heads, channels, dtype=F64)
    tensors = structure.tensors()
    for runs in (1, 3):
        weight = torch.randn(runs, structure.num_edges, 1, dtype=F64)
        made = []
        for there in {False, cpu.MKL}:
            monkeypatch.setattr(cpu, "MKL", there)
            made.append((cpu.spmm(x, weight, tensors), cpu.spmm_transposed(g, weight, tensors)))
            same(made[-1][0], reference.spmm(x, weight, tensors))
            same(made[-1][1], reference.spmm_transposed(g, weight, tensors))
        again = cpu.spmm(x, weight, tensors), cpu.spmm_transposed(g, weight, tensors)
        assert all(map(torch.equal, again, made[-1]))
        monkeypatch.undo()


@pytest.mark.skipif(not cpu.MKL, reason="torch was built without MKL")
def test_only_rows_of_few_bytes_and_one_head_go_to_mkl(monkeypatch):
    asked = []

    def seen(x, weight, layout):
        asked.append((x.dtype, x.shape[3]))
        return torch.zeros(len(x), 1, 1, x.shape[3], dtype=x.dtype)

    monkeypatch.setattr(cpu, "_spmm_narrow", seen)
    for dtype in (torch.float32, F64):
        for heads, channels in [(1, 16), (1, 32), (1, 33), (2, 16)]:
            x, weight = torch.ones(1, 3, heads, channels), torch.ones(1, 2, heads)
            cpu.spmm(x.to(dtype), weight.to(dtype), TWO_INTO_ONE)
    assert asked == [(torch.float32, 16), (torch.float32, 32), (F64, 16)]


def test_threads_change_no_bit():
    generator = torch.Generator().manual_seed(5)
    ends = (torch.rand(2, 6000, generator=generator) ** 3 * 300).long()  # a few large rows
    structure = Edges.from_edge_index(ends, num_nodes=300).tensors()
    x = torch.randn(2, 300, 1, 16, generator=generator, dtype=F64)
    weight = torch.randn(1, 6000, 1, generator=generator, dtype=F64)
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(cpu.spmm(x, weight, structure))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])
    same(found[0], reference.spmm(x, weight, structure))
