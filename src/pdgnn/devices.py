"""Where torch computes: the CPU, or a CUDA GPU that is there."""

from __future__ import annotations

import torch

from pdgnn.errors import InputError

__all__ = ["check_device"]


def check_device(device: str | torch.device, *, what: str) -> torch.device:
    """`device` if it is the CPU or a GPU that is there; `what` says who asks, for the error.

    >>> check_device("cpu", what="runs train")
    device(type='cpu')
    """
    try:
        target = torch.device(device)
    except (RuntimeError, TypeError) as e:
        raise InputError(f"unknown device {device!r}; use 'cpu' or 'cuda'") from e
    if target.type not in ("cpu", "cuda"):
        raise InputError(
            f"{what} on 'cpu' or 'cuda', not on {str(target)!r}; name one of them as device"
        )
    if target.type == "cuda":
        if not torch.cuda.is_available():
            raise InputError("device='cuda' needs a CUDA GPU and there is none; use device='cpu'")
        if (target.index or 0) >= torch.cuda.device_count():
            raise InputError(f"there are {torch.cuda.device_count()} GPUs, and no {target}")
    return target
