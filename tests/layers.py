"""What the tests of the layers share."""

from __future__ import annotations

import torch
from torch import Tensor

# 0 - 1 - 2 with a triangle 1 - 2 - 3, and node 4 alone
EDGE_INDEX = torch.tensor([[0, 1, 1, 2, 1, 3, 2, 3], [1, 0, 2, 1, 3, 1, 3, 2]])


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def same(a: Tensor, b: Tensor) -> bool:
    return torch.allclose(a, b, rtol=1e-10, atol=1e-12)
