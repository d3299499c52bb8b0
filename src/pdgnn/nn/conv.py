"""What PDGCNConv and PDGATConv share: PyG's MessagePassing, with kernels that write no messages.

Both take PyG's edge_index ``[2, E]``, a torch.sparse ``adj_t``, or :class:`~pdgnn.ops.Edges`, which
are taken as they are: per-edge values in their slots, no self-loops dropped or added. With `Edges`
nothing waits for the device, and the layers work in CUDA graphs.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.nn.conv import MessagePassing
from torch_geometric.nn.dense.linear import Linear

from pdgnn.errors import InputError, check_whole
from pdgnn.ops import Edges

__all__ = ["FusedConv", "check_features", "glorot_linear"]

_HOOKS = [
    f"_{part}_forward_{kind}"
    for part in ("propagate", "message", "aggregate")
    for kind in ("pre_hooks", "hooks")
]


class FusedConv(MessagePassing):  # type: ignore[misc]
    """A `MessagePassing` that calls `propagate` only where somebody looks at its messages.

    These are an explainer, a hook, and a subclass with a `message`, `aggregate` or `update` of its
    own (`layer` is the class that the kernels stand for). A layer that torch.compile or
    torch.export traces with a plain edge_index goes through `propagate` too: what comes out then
    consists of PyTorch's own ops, of any size.
    """

    def __init__(self, layer: type[FusedConv]) -> None:
        super().__init__(aggr="add", node_dim=0)
        self._overridden = any(
            getattr(type(self), name) is not getattr(layer, name)
            for name in ("message", "aggregate", "update")
        )

    def wants_messages(self, edge_index: Tensor | Edges) -> bool:
        """Whether this call has to go through `propagate`."""
        if self.explain or self._overridden or any(getattr(self, name) for name in _HOOKS):
            return True
        return torch.compiler.is_compiling() and not isinstance(edge_index, Edges)

    def aggregate(self, inputs: Tensor, index: Tensor, dim_size: int) -> Tensor:
        """Σ of the messages ``[E, ...]`` into each of `dim_size` targets.

        Not PyG's scatter, which takes longer on a CPU and writes in place, as vmap does not allow.
        """
        return inputs.new_zeros(dim_size, *inputs.shape[1:]).index_add(0, index, inputs)


def check_features(x: Tensor) -> Tensor:
    """`x` if it has rows of features."""
    if x.ndim != 2:
        raise InputError(f"x has shape {list(x.shape)}; give [N, in_channels]")
    return x


def glorot_linear(in_channels: int, out_channels: int) -> Linear:
    """W without a bias, drawn as PyG's layers draw theirs; -1 channels are seen at the first call.

    >>> glorot_linear(0, 3)
    Traceback (most recent call last):
    pdgnn.errors.InputError: in_channels must be a whole number of at least 1, not 0
    """
    if in_channels != -1:
        check_whole("in_channels", in_channels)
    return Linear(in_channels, out_channels, bias=False, weight_initializer="glorot")
