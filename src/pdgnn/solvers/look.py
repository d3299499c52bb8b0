"""The first steps of a Lanczos process: what they foretell, and a polynomial for the others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pdgnn.solvers.lanczos import Lanczos, Product
from pdgnn.solvers.problem import ComponentProblem

__all__ = ["Look", "filtered", "looked_at", "plain", "room"]

LOOK_STEPS = 20
"""Steps that look at the spectrum, and one more for each pair."""
MOST_DEGREE = 7
"""The largest of a polynomial. On 21 graphs of 10,000 nodes 5 takes 4 to 10 % longer for 4 to 32
pairs, and 9 is from 5 % slower, for 4 of them, to 3 % faster, for 32."""
MOST_GROWTH = 5.0
"""Degree of a polynomial, but for 1, times the logarithm that it grows by at the first eigenvalue:
that of the last one wanted is then at most a hundredth of it, and keeps its digits."""
MOST_STEPS, MOST_ENTRIES = 300, 32_000_000
"""Steps of a process that keeps its vectors, and room for these."""


def plain(problem: ComponentProblem) -> Product:
    """1 − S / half its norm: the lowest eigenvalues are the largest."""
    matrix, scale = problem.matrix, -2.0 / problem.norm
    return lambda v: torch.addmv(v, matrix, v, alpha=scale)


def filtered(problem: ComponentProblem, look: Lanczos, k: int) -> tuple[Product, Tensor, int]:
    """A Chebyshev polynomial of `plain` that is small below the largest few eigenvalues.

    Also the part of the first vector that is large there, and the degree. An odd one is negative
    beyond the other end of the spectrum, should that lie further out than was seen.
    """
    theta, q = look.ritz()
    each = problem.n * q[0] ** 2
    # above it are the wanted eigenvalues and another one, which tells the gap
    edge = _edge(theta, each, k, int(np.searchsorted(np.cumsum(each), k)) + 2)
    start = look.vectors(q[:, : edge + 1] @ q[0, : edge + 1, None])[:, 0]
    low, high = theta[-1] - look.bound(q[:, -1]), theta[edge]
    centre, half = (low + high) / 2, (high - low) / 2
    growth = float(np.arccosh(max((theta[0] - centre) / half, 1.0 + 1e-9)))
    degree = min(MOST_DEGREE, 2 * int(MOST_GROWTH / growth) + 1)
    matrix = problem.affine((1.0 - centre) / half, -2.0 / problem.norm / half)

    def product(v: Tensor) -> Tensor:
        before, now = v, torch.addmv(v, matrix, v, beta=0.0)  # torch.mv takes half as long again
        for _ in range(degree - 1):
            before, now = now, torch.addmv(before, matrix, now, beta=-1.0, alpha=2.0)
        return now

    return product, start, degree


def _edge(theta: NDArray[np.float64], each: NDArray[np.float64], k: int, least: int = 0) -> int:
    """The Ritz value, of `theta` in descending order, that is below the wanted eigenvalues.

    `each` is how many eigenvalues each of them stands for, `least` the first that it may be.
    """
    count = np.cumsum(each)
    edge = min(max(least, int(np.searchsorted(count, 2 * k + 4))), len(theta) - 2)
    while edge < len(theta) - 2 and (
        count[edge + 1] <= 4 * k + 12 or 10 * (1.0 - theta[edge]) < 1.0 - theta[edge + 1]
    ):  # further where that adds few, or where some lie far below the others
        edge += 1
    return edge


@dataclass(frozen=True)
class Look:
    """What the first steps of a Lanczos process show of a spectrum; it may be taken further."""

    process: Lanczos
    steps: int

    def low(self, k: int) -> float:
        """About the eigenvalue, over half the norm, that the k lowest are below."""
        theta, q = self.process.ritz(self.steps)
        return float(1.0 - theta[_edge(theta, self.process.n * q[0] ** 2, k)])

    def products(self, k: int, worth: float = np.inf) -> float:
        """About as many products as ARPACK would take for k pairs.

        n times a Ritz vector's share of the random start is the number of eigenvalues that it
        stands for. How fast that falls with the steps, from the tenth on, says when it will be one.
        Where that is more than they are `worth`, as many steps again say it better.
        """
        steps = min(LOOK_STEPS + k, self.steps)
        found = self._foreseen(k, 10, steps)
        if found > worth:
            self.process.extend(2 * steps - self.process.size)
            if self.process.size > steps:  # there was room for more
                found = self._foreseen(k, steps, min(2 * steps, self.process.size))
        return found

    def _foreseen(self, k: int, before: int, steps: int) -> float:
        half, count = (self.process.n * self.process.ritz(m)[1][0, 0] ** 2 for m in (before, steps))
        if count <= 2 * k + 16:
            return 0.0
        power = np.log(max(half / count, 1.01)) / np.log(steps / before)
        return float(4 * steps * min(count, 1e6) ** (1 / power))


def looked_at(problem: ComponentProblem, k: int, start: Tensor) -> Look:
    """The first steps for k pairs, on the CPU with room for all that one pair takes."""
    steps = LOOK_STEPS + k
    on_cpu = start.device.type == "cpu"
    most = max(2 * steps, room(problem.n) if k == 1 else 0) if on_cpu else steps
    process = Lanczos(plain(problem), problem.trivial[None], start, most)
    process.extend(steps)
    return Look(process, steps)


def room(n: int) -> int:
    """Steps of a Lanczos process that keeps all of its vectors."""
    return min(MOST_STEPS, MOST_ENTRIES // n)
