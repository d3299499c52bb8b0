"""The errors that a user can cause, and mend."""

from __future__ import annotations


class PdgnnError(Exception):
    """Base of every error that pdgnn raises on purpose."""


class InputError(PdgnnError, ValueError):
    """Input that cannot be used. The message names the harm and the remedy in one line."""


class ConvergenceError(PdgnnError, ArithmeticError):
    """An eigenpair did not reach the tolerance asked for; no vector is returned."""
