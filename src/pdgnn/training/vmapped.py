"""A function written for one run, applied to many at once by vmap, or to one without it."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import shorten
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import vmap
from torch.utils._pytree import tree_map

from pdgnn.errors import InputError, PdgnnError

__all__ = ["of_single_run", "over_runs"]


def of_single_run(function: Callable[..., Any], *values: Any) -> Any:
    """`function` of the values ``[1, ...]`` of a single run, as ``[1, ...]``."""
    return _each(Tensor.unsqueeze, function(*_each(Tensor.squeeze, values)))


def over_runs(function: Callable[..., Any], *values: Any, module: nn.Module, name: str) -> Any:
    """`function` of one run's values, for all runs: ``[R, ...]`` to ``[R, ...]``.

    Where it works for one run but not under vmap, the error names the layer of `module` that is the
    cause; `name` is what the model is called.
    """
    try:
        return _mapped(function, values)
    except (PdgnnError, torch.OutOfMemoryError):
        raise
    except Exception as e:
        if not _works(lambda: function(*tree_map(lambda t: t[0], values))):
            raise
        place = _failing_layer(module, lambda: _mapped(function, values))
        said = shorten(str(e), 160, placeholder=" ...")
        raise InputError(
            f"{place} of the model {name!r} cannot be applied to many runs at once ({said}); "
            "replace it, or train with most_runs=1"
        ) from e


def _each(change: Callable[[Tensor, int], Tensor], tree: Any) -> Any:
    return tree_map(lambda t: change(t, 0) if isinstance(t, Tensor) else t, tree)


def _mapped(function: Callable[..., Any], values: Any) -> Any:
    return vmap(function, randomness="different")(*values)


def _works(call: Callable[[], Any]) -> bool:
    try:
        call()
    except Exception:
        return False
    return True


def _failing_layer(module: nn.Module, call: Callable[[], Any]) -> str:
    """The innermost layer in which `call` fails, by its name and its type."""
    entered: list[str] = []
    hooks = []
    for name, layer in module.named_modules():
        label = f"{name or 'the module'} ({type(layer).__name__})"
        hooks += [
            layer.register_forward_pre_hook(lambda *_, label=label: entered.append(label)),
            layer.register_forward_hook(lambda *_: entered.pop() and None),
        ]
    try:
        _works(call)
    finally:
        for hook in hooks:
            hook.remove()
    return entered[-1] if entered else f"the module ({type(module).__name__})"
