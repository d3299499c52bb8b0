"""What the tests of the primitives share: random graphs with values on them, in every form."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest
import torch

from pdgnn.ops import Edges

triton = pytest.param(
    "gpu", marks=pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed")
)
every_backend = pytest.mark.parametrize("backend", ["reference", "cpu", triton])


def device(backend: str) -> str:
    return "cuda" if backend == "gpu" and torch.cuda.is_available() else "cpu"


class Case:
    """A random multigraph from `sources` to `targets` with values on it, float64."""

    def __init__(self, seed: int, *, sources=7, targets=5, edges=18, heads=2, channels=3):
        rng = np.random.default_rng(seed)
        self.source = rng.integers(sources, size=edges)
        self.target = rng.integers(targets, size=edges)
        self.x = rng.normal(size=(sources, heads, channels))
        self.q = rng.normal(size=(targets, heads, channels))
        self.k = rng.normal(size=(sources, heads, channels))
        self.weight = rng.normal(size=(edges, heads))
        self.a_src = rng.normal(size=(sources, heads))
        self.a_dst = rng.normal(size=(targets, heads))
        self.attr = rng.normal(size=(edges, 2))
        self.w_edge = rng.normal(size=(heads, 2))
        self.mask = rng.integers(2, size=(edges, heads)) * 2.0
        self.bias, self.att, self.att2 = rng.normal(size=(3, heads, channels))

    def edges(self, where: str = "cpu") -> Edges:
        index = torch.tensor(np.stack([self.source, self.target]))
        return Edges.from_edge_index(index, num_nodes=len(self.x), num_targets=len(self.a_dst)).to(
            where
        )

    def tensors(self, *names: str, where: str = "cpu", grad: bool = False) -> list[torch.Tensor]:
        found = [torch.tensor(getattr(self, name), device=where) for name in names]
        return [t.requires_grad_() for t in found] if grad else found

    def summed(self, weight: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Σ_e w_e v_j, edge by edge."""
        out = np.zeros((len(self.a_dst), *values.shape[1:]))
        for e, (j, i) in enumerate(zip(self.source, self.target, strict=True)):
            out[i] += weight[e][:, None] * values[j]
        return out

    def softmax(self, score: np.ndarray) -> np.ndarray:
        """Over the edges into each target."""
        p = np.zeros_like(score)
        for i in range(len(self.a_dst)):
            mine = self.target == i
            e = np.exp(score[mine] - score[mine].max(axis=0, initial=-1e300))
            p[mine] = e / e.sum(axis=0)
        return p

    def logits(self) -> np.ndarray:
        return self.a_src[self.source] + self.a_dst[self.target]
