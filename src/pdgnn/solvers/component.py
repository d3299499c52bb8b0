"""The lowest non-trivial eigenpairs of connected components, by whichever solver suits them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cached_property
from importlib.util import find_spec

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from pdgnn.devices import at_most_threads, one_blas_thread
from pdgnn.errors import ConvergenceError
from pdgnn.solvers.arpack import arpack
from pdgnn.solvers.canonical import canonical_basis, clusters
from pdgnn.solvers.davidson import Pairs, davidson
from pdgnn.solvers.dense import ComponentPairs, dense_pairs
from pdgnn.solvers.look import Look, looked_at
from pdgnn.solvers.order import Order, quick_order
from pdgnn.solvers.preconditioners import (
    Preconditioner,
    chebyshev,
    even_degrees,
    factorization_cost,
    fills_in,
    lu,
    multigrid,
    without_leaves,
)
from pdgnn.solvers.problem import Component, ComponentProblem
from pdgnn.solvers.sweep import sweep

__all__ = ["SOLVERS", "ComponentPairs", "ComponentSolver", "dense_pairs"]

SOLVERS = ("auto", "dense", "lanczos", "lu", "amg")
DENSE_NODES = 160
"""Components up to this size are solved densely, many at once."""
DENSE_RESCUE_NODES = 3000
"""Components up to this size are solved densely where an eigenvalue repeats too often."""
ARPACK_NODES = 220
"""Components from this size on are solved by ARPACK first."""
LU_FIRST_COST, LU_NEXT_COST, LU_COST = 7e6, 5e7, 5e12
"""Multiplications, as `factorization_cost` bounds them, up to which LU is chosen unseen, or
considered, or considered where the graph is narrow."""
UNSEEN_NODES = 400
"""Beyond so many, LU is chosen unseen for fewer multiplications, in proportion to the nodes: a step
of Lanczos then is more than calls."""
LU_SHARED = 20.0
"""Times as many of the first two where several γ share one factorization."""
LU_TRIAL_COST = 2e8
"""From here on a piece of a narrow graph is factorized first, to see whether it fills in."""
FIRST_NARROW, NARROW = 0.33, 0.065
"""Mean bandwidth, relative to the number of nodes, of a graph for which LU is chosen unseen, and of
one that it may suit."""
FEW_PRODUCTS = 300
"""That are foreseen for one pair, up to which nothing is factorized."""
WORTH = 600.0
"""Multiplications of a factorization, as bounded, for each of the products in its place."""
LOOK_NODES = 5000
"""From here on they are foreseen before the cost of a factorization is."""
LANCZOS_STEPS, GPU_STEPS = 300, 10_000
"""Steps that our own Lanczos may take before another solver replaces it, on a GPU as products."""
EVEN = 12.0
"""Largest d_i / M_i over the least one, up to which ARPACK is better than a polynomial of D⁻¹L."""
ARPACK_STEPS, ARPACK_STEPS_EACH = 460, 45
"""Products that ARPACK may be foreseen to take, and more for each pair, before another solver is
preferred; it is left when it took four times as many."""
LARGE_NODES, LARGE_SHARE = 200_000, 0.6
"""From so many nodes on, this share of them: vectors no longer fit into a near cache."""
GRID_NODES = 40_000
"""From here on few pairs of a mesh are found by multigrid and not by LU."""
MOST_GROWTH, GRID_GROWTH = 1.7, 1.15
"""Times as much room for each node that factors of a larger piece may take for LU to be chosen, and
where multigrid is the other way: on a plane 1.2 to 1.5, along roads or a chain of cliques 1.1."""
HUBS = 3
"""Times as many where there are hubs, with which multigrid is weaker."""
RESIDUAL_TOLERANCE = 1e-8
"""Largest residual ever returned, relative to half the bound on the norm (1 at γ = 1), unless
another is asked for."""
TIGHTEST, LOOSEST = 1e-10, 1e-2
"""Residuals that may be asked for."""
ONE_THREAD_ENTRIES = 200_000
"""Below this many entries of A, handing work to a second thread costs more than it saves."""
MOST_COPIES = 64
"""Copies of an eigenvalue beyond those wanted that an iterative solver keeps track of."""
MOST_STEPS = 20_000
"""Steps after which the last solver gives up."""
BESIDE = 8
"""Rough pairs beside the one of the first γ, for the basis that the others share."""
SWEPT_PAIRS = 4
"""Pairs from which on a solve of its own for each γ is better than a basis that they share."""


class ComponentSolver:
    """Solves one component at one γ after another.

    What does not depend on γ (the factorization or multigrid hierarchy of L, and the choice of
    solver) is made once. Where it is told which `gammas` will be asked for, the first is solved
    alone, and the others together, from its vectors.
    """

    def __init__(
        self,
        adjacency: sp.csr_array,
        *,
        k: int,
        solver: str = "auto",
        device: torch.device | None = None,
        seed: int = 0,
        tol: float | None = None,
        gammas: Sequence[float] = (),
    ) -> None:
        self._k = k
        self._on_gpu = device is not None and device.type != "cpu"
        self._order = Order(None if self._on_gpu else quick_order(adjacency))
        self._adjacency = self._order.matrix(adjacency)
        self._component = Component(self._adjacency, device=device if self._on_gpu else None)
        self._tol = RESIDUAL_TOLERANCE if tol is None else tol
        self._n = adjacency.shape[0]
        self._ahead = set(gammas)  # γ that will be asked for
        self._swept: dict[float, Pairs] = {}
        self._solver = solver
        # One stream for all: a random vector shows one copy of an eigenvalue that repeats, and the
        # same vector drawn again shows another process nothing more.
        self._generator = torch.Generator().manual_seed(seed)
        self._preconditioner: Preconditioner | None = None
        self._known: Tensor | None = None  # [n, s], y to start the other γ from
        self._sweep_guards = 0  # pairs beyond k in the basis that other γ share
        self._may_switch = False  # to multigrid, where Lanczos gives up
        if solver == "auto":
            with self._threads():
                self._choose()
        if self._solver in ("lu", "amg"):
            self._leave_gpu()

    def _choose(self) -> None:
        if self._n <= max(DENSE_NODES, 5 * self._k):
            self._solver = "dense"
            return
        self._may_switch = find_spec("pyamg") is not None
        self._solver = "lu" if self._suits_lu() else "lanczos"
        self._may_switch &= self._solver == "lanczos"

    def _suits_lu(self) -> bool:
        a, n = self._adjacency, self._n
        if a.nnz == 2 * (n - 1):  # a tree, which never fills in
            return bool(n <= LU_COST)
        if n >= LOOK_NODES and self._look.products(1) <= FEW_PRODUCTS:
            return False
        cost = factorization_cost(without_leaves(a))
        times = LU_SHARED if len(self._ahead) != 1 else 1.0
        narrow = cost <= min(LU_COST, NARROW**2 * n**3)
        first = LU_FIRST_COST * min(1.0, UNSEEN_NODES / n)
        if cost <= times * min(first, FIRST_NARROW**2 * n**3):
            return True
        if n <= UNSEEN_NODES and narrow:
            return True
        affordable = cost <= max(times * LU_NEXT_COST, LU_TRIAL_COST if narrow else 0.0)
        worth = (narrow or affordable) and max(FEW_PRODUCTS, cost / WORTH / a.nnz)
        if not worth or self._look.products(1) <= worth:
            return False
        return affordable or not fills_in(a, GRID_GROWTH if self._suits_multigrid else MOST_GROWTH)

    @property
    def _suits_multigrid(self) -> bool:
        """Whether its cycles, of all pairs at once, are preferred to factors that grow."""
        able = self._may_switch and not self._on_gpu
        return able and self._k < SWEPT_PAIRS and self._n >= GRID_NODES

    def solve(self, gamma: float) -> ComponentPairs:
        """The k lowest non-trivial pairs at this γ."""
        if self._solver == "dense" or self._n < 5 * (self._k + 3):
            return dense_pairs(self._adjacency.toarray()[None], gamma, k=self._k)
        with self._threads():
            return self._solve(gamma)

    @contextmanager
    def _threads(self) -> Iterator[None]:
        """One thread for a small graph, and for linear algebra beside torch's on a large one."""
        # a basis that several γ share grows by blocks, which are worth two threads sooner
        few = ONE_THREAD_ENTRIES if self._known is None else ONE_THREAD_ENTRIES // 4
        small = self._adjacency.nnz < few
        with one_blas_thread(), at_most_threads(1) if small else nullcontext():
            yield

    def _solve(self, gamma: float) -> ComponentPairs:
        if self._known is not None and gamma not in self._swept:
            self._sweep(self._known)
        self._ahead.discard(gamma)
        if gamma in self._swept:
            problem = ComponentProblem(self._component, gamma)
            return self._finish(problem, self._swept.pop(gamma))
        problem, pairs = self._alone(gamma)
        if not pairs.separated and self._n <= DENSE_RESCUE_NODES:
            return dense_pairs(self._adjacency.toarray()[None], gamma, k=self._k)
        if self._sweeps:
            self._remember(problem, pairs)
        return self._finish(problem, pairs)

    @property
    def _sweeps(self) -> bool:
        """Whether other γ are to share a basis."""
        return bool(self._ahead) and self._k < SWEPT_PAIRS

    def _alone(self, gamma: float) -> tuple[ComponentProblem, Pairs]:
        """The pairs at this γ by the solver chosen, or by multigrid where that gives up."""
        problem = ComponentProblem(self._component, gamma)
        found = problem.trivial[:, None][:, :0]
        limit = self._limit()
        if not self._slow_at_a_look:
            if self._suits_arpack(problem):
                pairs = self._arpack(problem)
                if pairs.converged:
                    return problem, pairs
                found = pairs.vectors
            if not self._may_switch or self._look.products(self._k, limit) <= limit:
                pairs = self._iterate(problem, found)
                if pairs.converged or not self._may_switch:
                    return problem, pairs
                found = pairs.vectors
        self._solver, self._may_switch, self._preconditioner = "amg", False, None
        self._leave_gpu()
        problem = ComponentProblem(self._component, gamma)
        return problem, self._iterate(problem, found)

    @property
    def _slow_at_a_look(self) -> bool:
        """Whether a first look at a large graph foresees more products than multigrid is worth."""
        large = self._may_switch and self._n >= LARGE_NODES
        return large and self._look.products(self._k) > self._limit()

    def _sweep(self, known: Tensor) -> None:
        """Solve at all γ that will be asked for; some may be left out."""
        self._known = None
        # many vectors at a time: a longer polynomial is worth it
        inverse = self._polynomial(times=2) if self._solver == "lanczos" else self._inverse()
        self._swept |= sweep(
            self._component,
            inverse,
            known,
            self._ahead - self._swept.keys(),
            wanted=self._k,
            guards=self._sweep_guards,
            generator=self._generator,
            tol=max(self._tol, TIGHTEST),
        )

    def _leave_gpu(self) -> None:
        """LU and multigrid work on the CPU, whatever looked ahead."""
        if self._on_gpu:
            self._on_gpu, self._component = False, Component(self._adjacency)

    def _suits_arpack(self, problem: ComponentProblem) -> bool:
        """On the CPU, with LU where several pairs are wanted, without where D / M is even.

        Its polynomial of S does not know of degrees, as ours of D⁻¹L does.
        """
        if self._n < ARPACK_NODES or self._on_gpu:
            return False
        if self._solver == "lu":
            return self._k > 1
        return self._solver == "lanczos" and problem.evenness <= EVEN

    def _arpack(self, problem: ComponentProblem) -> Pairs:
        limit = self._limit()
        return arpack(
            problem,
            self._inverse() if self._solver == "lu" else None,
            k=self._k,
            tol=max(self._tol, TIGHTEST),
            generator=self._generator,
            most=4 * limit if self._may_switch else MOST_STEPS,
            limit=limit if self._may_switch else np.inf,
            look=self._look if problem.gamma == 1.0 and self._solver == "lanczos" else None,
            beside=BESIDE if self._sweeps else 1,
        )

    @cached_property
    def _look(self) -> Look:
        """At D⁻¹L, whatever γ is asked for."""
        problem = ComponentProblem(self._component, 1.0)
        start = torch.randn(self._n, dtype=torch.float64, generator=self._generator)
        return looked_at(problem, self._k, start.to(problem.trivial.device))

    def _limit(self) -> int:
        """Products that are worth while before another solver is preferred."""
        if self._on_gpu:
            return GPU_STEPS + ARPACK_STEPS_EACH * self._k
        few = ARPACK_STEPS + ARPACK_STEPS_EACH * self._k
        if self._n >= LARGE_NODES:
            few = round(LARGE_SHARE * few)
        return few if even_degrees(self._adjacency) else HUBS * few

    def _inverse(self) -> Preconditioner:
        if self._preconditioner is None:
            if self._solver == "lu":
                self._preconditioner = lu(self._adjacency)
            elif self._solver == "amg":
                self._preconditioner = multigrid(self._adjacency, dtype=torch.float32)
            else:
                self._preconditioner = self._polynomial()
        return self._preconditioner

    def _polynomial(self, times: int = 1) -> Preconditioner:
        low = self._look.low(self._k)
        return chebyshev(self._component, low, times=times, dtype=torch.float32)

    def _iterate(self, problem: ComponentProblem, found: Tensor) -> Pairs:
        """Our own iteration, from the vectors found so far ``[n, s]`` and random ones."""
        inverse, root, pairs = self._inverse(), problem.root_m, self._k + self._guards
        steps = (GPU_STEPS if self._on_gpu else LANCZOS_STEPS) + 20 * self._k
        # drawn on the CPU: the same on any device
        drawn = torch.randn(pairs, self._n, dtype=torch.float64, generator=self._generator).T
        start = torch.cat([found.cpu(), drawn], dim=1).to(problem.trivial.device)
        return davidson(
            problem.apply,
            lambda r: root * inverse(root * r),
            start,
            problem.trivial,
            wanted=self._k,
            norm=problem.norm,
            max_iterations=steps if self._may_switch else MOST_STEPS,
            **_plan(self._solver, pairs, start.shape[1]),
            generator=self._generator,
            guards=self._guards,
            max_guards=MOST_COPIES,
            tol=max(self._tol, TIGHTEST),
        )

    @property
    def _guards(self) -> int:
        """Pairs beyond those wanted: a second one sees a double λ, where it costs little."""
        return max(1 if self._solver == "amg" else 2, self._sweep_guards)

    def _remember(self, problem: ComponentProblem, pairs: Pairs) -> None:
        """Keep the vectors of the first γ, or of one at which more copies were found."""
        guards = min(pairs.complete + 1, pairs.values.numel()) - self._k
        if guards > self._sweep_guards:
            self._known, self._sweep_guards = pairs.vectors / problem.root_m, guards

    def _finish(self, problem: ComponentProblem, pairs: Pairs) -> ComponentPairs:
        """Canonical vectors, with eigenvalues and residuals computed afresh from them."""
        values = pairs.values.numpy()
        whole = pairs.vectors[:, : pairs.complete].cpu().numpy()
        basis = canonical_basis(
            values[None, : pairs.complete], self._order.back(whole)[None], problem.norm, k=self._k
        )
        u = torch.from_numpy(self._order.rows(basis[0])).to(problem.trivial.device)
        rayleigh = problem.rayleigh(u)
        residuals = problem.residuals(rayleigh, u).cpu().numpy()
        self._certify(residuals, pairs, problem.norm)
        multiplicity = int((clusters(values, problem.norm) == 0).sum())
        return ComponentPairs(
            rayleigh.cpu().numpy()[None],
            basis,
            residuals[None],
            np.array([values[multiplicity] - values[0]]),
            np.array([multiplicity]),
            self._solver,
        )

    def _certify(self, residuals: NDArray[np.float64], pairs: Pairs, norm: float) -> None:
        """No answer leaves here whose residual is too large or whose eigenspace is not whole."""
        limit = self._tol * norm / 2
        if 2 * pairs.values.numel() > self._k + MOST_COPIES and not pairs.separated:
            raise ConvergenceError(
                f"λ = {float(pairs.values[0]):.6g} repeats more than {pairs.complete - 1} times on "
                f"a component of {self._n} nodes, as in a star; such a component is solved up to "
                f"{DENSE_RESCUE_NODES} nodes only"
            )
        if not pairs.separated:
            raise ConvergenceError(
                f"the eigenspace of λ = {float(pairs.values[self._k - 1]):.6g} was not found whole "
                f"after {pairs.iterations} steps of {self._solver} on a component of {self._n} "
                f"nodes ({pairs.complete} copies seen); try another solver={SOLVERS[2:]}"
            )
        if residuals.max() > limit:
            raise ConvergenceError(
                f"the residual {residuals.max():.2g} stayed above {limit:.2g} after "
                f"{pairs.iterations} steps of {self._solver} on a component of {self._n} nodes; "
                f"try another solver={SOLVERS[2:]}"
            )


def _plan(solver: str, pairs: int, start: int) -> dict[str, int]:
    """Sizes that suit a cheap step (a long basis) or a strong preconditioner (a short one)."""
    block = min(pairs, 24)  # fewer would leave copies of a repeated eigenvalue behind
    long = solver == "lanczos"
    basis = max(2 * pairs + 8 * block, start + (6 if solver == "lu" else 3) * block)
    basis = max(40, 3 * pairs + 20, start + 20) if long else basis
    keep = pairs + (basis - pairs) // (2 if long else 3)
    return {"basis_size": basis, "block": block, "keep": keep}
