"""Files of tensors, as safetensors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["save_tensors"]


def save_tensors(
    path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, str] | None = None
) -> None:
    """Write tensors, and texts `about` them, to a file that the same people may read as any other.

    The tensors are written from where they lie. An error of the disk is an `OSError`.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    plain = {name: t.detach().cpu().contiguous() for name, t in tensors.items()}
    path.touch()
    mode = path.stat().st_mode
    try:
        save_file(plain, str(path), dict(about or {}))  # as a file that nobody else may read
    except SafetensorError as e:
        raise OSError(str(e)) from e
    path.chmod(mode)
