"""Kernels on more than 2^31 elements, where there is a GPU with room for them."""

from __future__ import annotations

import pytest
import torch

from pdgnn.ops import Edges, activate, aggregate, attend, layer_norm, score_nodes

NODES, HEADS, CHANNELS = 4_300_000, 8, 64
ROOM = 60 * 2**30

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.mem_get_info()[0] < ROOM,
    reason="there is no CUDA GPU with 60 GiB of free memory",
)


@pytest.fixture(scope="module")
def x() -> torch.Tensor:
    """A few numbers in each row, which say where it is; bfloat16 holds them exactly."""
    assert NODES * HEADS * CHANNELS > 2**31
    row = torch.arange(NODES, device="cuda")
    digits = torch.stack([row >> 16, row >> 8, row, row * 0], dim=1) & 255  # [N, 4]
    return digits.bfloat16().repeat(1, HEADS * CHANNELS // 4).view(NODES, HEADS, CHANNELS)


@pytest.fixture(scope="module")
def edges() -> Edges:
    """From the last nodes to the first ones, and back; all others have none."""
    last, first = torch.arange(NODES - 1000, NODES), torch.arange(1000)
    index = torch.stack([torch.cat([last, first]), torch.cat([first, last])])
    return Edges.from_edge_index(index.cuda(), num_nodes=NODES)


def ends(t: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return t[:1000], t[-1000:]


def test_messages_come_from_far_away(x, edges):
    weight = torch.ones(edges.num_edges, 1, device="cuda")
    out = aggregate(x, weight, edges)
    first, last = ends(out)
    assert torch.equal(first, x[-1000:])
    assert torch.equal(last, x[:1000])
    assert not out[1000:-1000].any()


def test_attention_and_its_gradient_reach_the_last_node(x, edges):
    scores = torch.zeros(NODES, HEADS, device="cuda", requires_grad=True)
    given = x.detach().requires_grad_()
    out = attend(given, scores, scores.detach(), edges)  # one edge each: its weight is 1
    assert torch.equal(ends(out.detach())[0], x[-1000:])
    (dx,) = torch.autograd.grad(out, given, x)
    assert torch.equal(ends(dx)[1], x[:1000])
    assert not dx[1000:-1000].any()


def test_rows_are_found_past_two_to_the_31(x):
    h, bias = x.view(NODES, -1), torch.zeros(HEADS * CHANNELS, device="cuda").bfloat16()
    out = activate(h, bias, residual=h)
    assert torch.equal(out[-5:], 2 * h[-5:])
    y, _ = layer_norm(h, torch.ones_like(bias), bias)
    expected = torch.nn.functional.layer_norm(h[-5:].float(), h.shape[1:])
    torch.testing.assert_close(y[-5:].float(), expected, atol=0.02, rtol=0.02)
    one = torch.ones(HEADS, CHANNELS, device="cuda").bfloat16()
    _, a_src, _ = score_nodes(x, None, one, one)
    torch.testing.assert_close(a_src[-5:], x[-5:].float().sum(dim=-1))
