"""Sparse matrices of torch."""

from __future__ import annotations

import warnings
from functools import cache

import torch
from torch import Tensor

__all__ = ["csr_tensor"]


def csr_tensor(pointers: Tensor, columns: Tensor, values: Tensor, size: tuple[int, int]) -> Tensor:
    """A matrix by rows, whose parts are trusted.

    >>> one = csr_tensor(torch.tensor([0, 1]), torch.tensor([1]), torch.tensor([3.0]), (1, 2))
    >>> one.to_dense().tolist()
    [[0.0, 3.0]]
    """
    _warned()
    return torch.sparse_csr_tensor(pointers, columns, values, size, check_invariants=False)


@cache
def _warned() -> None:
    """Once in a process torch says that these matrices are a beta feature; nobody need hear it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        torch.sparse_csr_tensor([0, 1], [0], [1.0], (1, 1))
