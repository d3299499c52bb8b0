"""The parameters of many runs side by side: views of them, leaves, gradients."""

from __future__ import annotations

import pytest
import torch

from pdgnn.training.state import (
    ALIGNED,
    SMALL,
    StackedParameters,
    flat_parameters,
    views,
)
from runs import build


def shapes(model: torch.nn.Module) -> dict[str, torch.Size]:
    return {name: p.shape for name, p in model.named_parameters()}


def test_views_share_the_flat_parameters():
    model = build("pd-gat", 3, 2, hidden_channels=8, depth=1, heads=2)
    flat = flat_parameters([model, model])
    parts = views(flat, shapes(model))
    for name, p in model.named_parameters():
        assert torch.equal(parts[name][1], p)
    flat.zero_()
    assert all(not part.any() for part in parts.values())


@pytest.mark.parametrize("runs", [1, 3])
@pytest.mark.parametrize("narrow", [None, torch.bfloat16])
def test_leaves_follow_the_rows(runs, narrow):
    models = [build("pd-gat", 3, 2, hidden_channels=72, depth=1, heads=2, seed=i) for i in range(3)]
    model, rows = models[0], flat_parameters(models[:runs])
    leaves = StackedParameters(rows, model, narrow=narrow, wide=model.wide)
    assert list(leaves.by_name) == [name for name, _ in model.named_parameters()]
    for scale in (1.0, 0.5):
        rows *= scale
        leaves.follow()
        for name, part in views(rows, shapes(model)).items():
            leaf = leaves.by_name[name]
            wide = narrow is None or name.startswith(("lin_in", "norm_out", "lin_out"))
            assert leaf.dtype == (torch.float32 if wide else torch.bfloat16)
            assert torch.equal(leaf, part.to(leaf.dtype))
            assert leaf.is_leaf
            assert leaf.requires_grad
            assert leaf.is_contiguous() == (runs == 1 or part[0].numel() <= SMALL)
            assert leaf.storage_offset() % ALIGNED == 0
    assert leaves.by_name["layers.0.block.lin.weight"].is_contiguous() == (runs == 1)  # is large


@pytest.mark.parametrize("narrow", [None, torch.bfloat16])
@pytest.mark.parametrize("name", ["pd-gat", "plain-gcn"])  # of two types, and of one
def test_gradients_are_where_the_parameters_are(name, narrow):
    models = [build(name, 3, 2, hidden_channels=8, depth=2, heads=2, seed=i) for i in range(3)]
    rows = flat_parameters(models)
    leaves = StackedParameters(rows, models[0], narrow=narrow, wide=models[0].wide)
    found = leaves.side_by_side([leaf.detach() for leaf in leaves.by_name.values()])
    wide, layers = torch.float32, narrow or torch.float32
    types = [wide, layers, wide] if models[0].wide and narrow else [layers]
    assert [part.dtype for _, part in found] == types
    assert {group for group, _ in found} == {0}
    flat = torch.cat([part.float() for _, part in found], dim=1)
    expected = {n: leaf.float() for n, leaf in leaves.by_name.items()}
    assert flat.shape == rows.shape
    for part, value in views(flat, shapes(models[0])).items():
        assert torch.equal(value, expected[part])
    assert torch.equal(flat == 0, rows == 0)  # so are the gaps
    grads = [leaf.detach() for leaf in leaves.by_name.values()]
    apart = leaves.side_by_side(grads, [0, *[1] * (len(grads) - 1)])
    assert [group for group, _ in apart][:2] == [0, 1]
    assert torch.equal(torch.cat([part.float() for _, part in apart], dim=1), flat)
