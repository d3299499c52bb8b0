"""The lowest eigenpairs at many γ at once, from one basis that they share.

With y = M^(−½) u the problem is L y = (λ/γ) M y, in which M = γD + (1−γ)I alone depends on γ, and y
is analytic in it. This is a reduced-basis method: the pencils (VᵀLV, VᵀMV) of all γ come from two
small matrices, and vectors that improve a pair at a few γ improve it at those between.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.linalg import eigh
from torch import Tensor

from pdgnn.solvers.davidson import Basis, Pairs, State, assess
from pdgnn.solvers.preconditioners import Preconditioner
from pdgnn.solvers.problem import Component

__all__ = ["sweep"]

MOST_VECTORS, MOST_VECTORS_EACH = 100, 20
"""That the basis may grow by, and more for each pair; a γ that asks for more is left out."""
NODES = 4
"""γ that the basis is made for first; the others add what they lack of it."""
PROBING_STEPS, PROBES = 4, 12
"""Steps, and vectors, at least, that improve random mixtures of what is not wanted."""
SLOW = 0.01
"""Roughness at every γ, after a third of these vectors, at which each is better solved alone."""
BLOCK = 8
"""Residuals improved in one step, at most, or two for each pair."""


def sweep(
    component: Component,
    inverse: Preconditioner,
    known: Tensor,
    gammas: Collection[float],
    *,
    wanted: int,
    guards: int,
    generator: torch.Generator,
    tol: float,
) -> dict[float, Pairs]:
    """The `wanted` lowest pairs, whole eigenspaces, at each γ where nothing is in doubt.

    `known` ``[n, s]`` are vectors y of another γ. They may lack an eigenspace of another symmetry,
    so that as many random vectors as there are pairs join them, and the first steps improve random
    mixtures of whatever is not wanted. A γ is left out where an eigenvalue repeats more often than
    the `guards` beyond the wanted pairs can tell, where the basis grows too large, or where the
    pairs improve so slowly that it would.
    """
    pairs = wanted + guards
    most = min(known.shape[1] + MOST_VECTORS + MOST_VECTORS_EACH * pairs, len(known) // 2)
    basis = _Shared(component, inverse, known, wanted, pairs, most, generator)
    rest, done = sorted(gammas), dict[float, Pairs]()
    nodes = _nodes(rest, float(component.degree.mean()))
    step, third = 0, basis.size + (most - basis.size) // 3
    while rest and basis.size < most:
        probing = step < max(PROBING_STEPS, PROBES // (wanted + 1))
        points = basis.points(nodes or rest, tol, every=probing)
        if nodes and basis.size >= third and all(p.roughness > SLOW for p in points):
            break
        told = all(p.state.separated or p.state.end == pairs for p in points)
        if nodes and not probing and (told or 2 * basis.size > most):
            nodes = []
            continue
        if not nodes:
            done |= {p.gamma: basis.pairs(p, step) for p in points if p.finished}
            points = [p for p in points if not p.finished and p.state.end < pairs]
            rest = [p.gamma for p in points]
        if points:
            basis.expand(points, probe=points[step % len(points)] if probing else None)
        step += 1
    return done


def _nodes(gammas: Sequence[float], degree: float) -> list[float]:
    """A few γ, apart from each other and from 1 in the share γd / (γd + 1 − γ) of D in M.

    >>> _nodes([0.0, 0.2, 0.4, 0.6, 0.8], degree=4.0)
    [0.0, 0.2, 0.4, 0.6]
    """
    share = {gamma: gamma * degree / (gamma * degree + 1.0 - gamma) for gamma in gammas}
    taken, nodes = [1.0], list[float]()
    while share and len(nodes) < NODES:
        far = max(share, key=lambda gamma: min(abs(share[gamma] - other) for other in taken))
        nodes.append(far)
        taken.append(share.pop(far))
    return nodes


@dataclass
class _Point:
    """The Ritz pairs at one γ; p are the wanted ones and the guards."""

    gamma: float
    values: Tensor  # [s], μ
    q: Tensor  # [1 + s, s], coordinates, that of the trivial vector first
    vectors: Tensor  # [p, n], u
    residuals: Tensor  # [p, n], of x
    norms: Tensor  # [p], of the residuals of u
    state: State

    @property
    def finished(self) -> bool:
        """Whether nothing is in doubt."""
        return self.state.separated and self.state.accurate

    @property
    def roughness(self) -> float:
        """The residual of the first pair, relative to its distance from the next."""
        distance = (self.gamma or 1.0) * (self.values[1] - self.values[0])
        return float(self.norms[0] / distance.clamp_min(1e-300))


def _lowest(h: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """The lowest eigenvalues ``[g, p]`` and vectors ``[g, s, p]`` of symmetric ``[g, s, s]``."""
    pairs = [eigh(a, subset_by_index=(0, most - 1), check_finite=False) for a in h.numpy()]
    values, vectors = (torch.from_numpy(np.stack(each)) for each in zip(*pairs, strict=True))
    return values, vectors


class _Shared:
    """The basis V of all γ, orthonormal for x = (D/d + I)^½ y with the mean degree d.

    In terms of x, L is (D/d + I)^(−½) L (D/d + I)^(−½), D is D / (D/d + I), and I the rest.
    """

    def __init__(
        self,
        component: Component,
        inverse: Preconditioner,
        known: Tensor,
        wanted: int,
        pairs: int,
        most: int,
        generator: torch.Generator,
    ) -> None:
        self._component, self._inverse, self._generator = component, inverse, generator
        self._wanted, self._pairs = wanted, pairs
        degree = torch.from_numpy(component.degree).to(known.device)
        self._mean = float(degree.mean())
        middle = degree / self._mean + 1.0
        self._root, self._share = middle.sqrt(), degree / middle
        matrix = component.operator(middle.cpu().numpy(), 1.0)
        drawn = torch.randn(pairs, len(degree), dtype=torch.float64, generator=generator)
        start = torch.cat([self._root[:, None] * known, drawn.T.to(known.device)], dim=1)
        trivial = self._root / torch.linalg.vector_norm(self._root)
        room = max(start.shape[1], most) + max(BLOCK, 2 * pairs) + wanted + 1
        self._basis = Basis(lambda x: matrix @ x.contiguous(), trivial, start, room, generator)
        self._weight = torch.zeros(room + 1, room + 1, dtype=torch.float64)  # V D Vᵀ
        self._weighed = 0
        self._weigh()

    @property
    def size(self) -> int:
        return self._basis.size

    def _weigh(self) -> None:
        a, b = self._weighed, self.size + 1
        v = self._basis.v
        new = ((v[a:b] * self._share) @ v.T).cpu()
        self._weight[a:b, :b], self._weight[:b, a:b] = new, new.T
        self._weighed = b

    def points(self, gammas: Sequence[float], tol: float, *, every: bool) -> list[_Point]:
        """The Ritz pairs at each γ, `every` one or the lowest; vectors and residuals of these."""
        p = self._pairs
        values, q = self._ritz(torch.tensor(gammas, dtype=torch.float64), None if every else p)
        low = q[:, :, :p].transpose(1, 2).reshape(len(gammas) * p, -1).to(self._root.device)
        x = (low @ self._basis.v).view(len(gammas), p, -1)
        images = (low[:, 1:] @ self._basis.av).view(len(gammas), p, -1)
        return [
            self._point(gamma, values[i], q[i], x[i], images[i], tol)
            for i, gamma in enumerate(gammas)
        ]

    def _ritz(self, gammas: Tensor, most: int | None) -> tuple[Tensor, Tensor]:
        """μ ``[g, s]`` and coordinates ``[g, 1 + s, s]`` of y, orthonormal for M and beside 1."""
        b = self._weighed
        weight, eye = self._weight[:b, :b], torch.eye(b, dtype=torch.float64)
        m = torch.lerp(eye - weight / self._mean, weight, gammas[:, None, None])
        across = m[:, :1, 1:] / m[:, :1, :1]  # what of 1 makes the others orthogonal to it
        factor = torch.linalg.cholesky(m[:, 1:, 1:] - m[:, 1:, :1] * across)
        half = torch.linalg.solve_triangular(factor, self._basis.h[None], upper=False)
        h = torch.linalg.solve_triangular(factor, half.transpose(1, 2), upper=False)
        values, q = torch.linalg.eigh(h) if most is None else _lowest(h, most)
        q = torch.linalg.solve_triangular(factor.transpose(1, 2), q, upper=True)
        return values, torch.cat([-across @ q, q], dim=1)

    def _diagonal(self, gamma: float) -> Tensor:
        """M in terms of x."""
        return gamma * self._share + (1.0 - gamma) * (1.0 - self._share / self._mean)

    def _point(
        self, gamma: float, values: Tensor, q: Tensor, x: Tensor, images: Tensor, tol: float
    ) -> _Point:
        diagonal, mu = self._diagonal(gamma), values[: self._pairs]
        root, scale = diagonal.sqrt(), gamma or 1.0
        u = x * root
        residuals = images - (mu.to(u.device)[:, None] * root) * u
        norms = scale * torch.linalg.vector_norm(residuals / root, dim=1).cpu()
        norm = self._component.norm(gamma)
        state = assess(scale * mu, norms, self._wanted, norm, tol, floor=1e-14)
        return _Point(gamma, values, q, u, residuals, norms, state)

    def pairs(self, point: _Point, steps: int) -> Pairs:
        """The answer at this γ."""
        return Pairs(
            (point.gamma or 1.0) * point.values[: self._pairs],
            point.vectors.T,
            point.norms,
            point.state.end,
            steps,
            separated=True,
            converged=True,
        )

    def expand(self, points: list[_Point], *, probe: _Point | None) -> None:
        """Add the inverse of the principal parts of the residuals at these γ, and of mixtures."""
        lacking = [p.residuals[p.state.unfinished] for p in points if not p.finished]
        block = torch.cat(lacking or [self._root.new_empty(0, len(self._root))])
        block = block / torch.linalg.vector_norm(block, dim=1, keepdim=True)
        weight, mix = torch.linalg.eigh(block @ block.T)
        good = weight > 1e-3 * weight.max() if lacking else weight > 0
        block = mix[:, good][:, -max(BLOCK, 2 * self._pairs) :].T @ block
        if probe is not None:
            block = torch.cat([block, self._mixtures(probe)])
        new = self._root[:, None] * self._inverse((self._root * block).T)
        self._basis.expand(new.T, self.size)
        self._weigh()

    def _mixtures(self, point: _Point) -> Tensor:
        """Residuals of random mixtures of the Ritz vectors above the lowest ``[wanted + 1, n]``.

        Each of these weighs as much as one step of inverse iteration would leave of it.
        """
        mu, q = point.values[self._pairs :].clamp_min(1e-300), point.q[:, self._pairs :]
        shape = (len(mu), self._wanted + 1)
        weight = torch.randn(shape, dtype=torch.float64, generator=self._generator)
        weight *= (mu[0] / mu)[:, None]
        weight /= torch.linalg.vector_norm(weight, dim=0)
        rows = (q @ weight).T.to(self._root.device)
        mean = (mu @ weight**2).to(rows.device)[:, None]
        x = rows @ self._basis.v
        return rows[:, 1:] @ self._basis.av - mean * self._diagonal(point.gamma) * x
