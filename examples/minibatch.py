"""Train on parts of a graph, with what only the whole graph knows: degrees and φ.

A part lacks edges, so its own degrees are too small and its own φ is another vector. Both are
computed once on the whole graph and stored on the data; PyG's loaders then cut them to size with
everything else. Here parts are drawn by `NeighborLoader` where pyg-lib or torch-sparse is
installed, and by `RandomNodeLoader` where not.

    python examples/minibatch.py
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch_geometric import seed_everything
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader, RandomNodeLoader
from torch_geometric.typing import WITH_PYG_LIB, WITH_TORCH_SPARSE
from torch_geometric.utils import degree

from pdgnn import datasets
from pdgnn.nn import PDGATConv, PDGCNConv
from pdgnn.transforms import AddDirectionFeatures


class Net(nn.Module):
    """A layer of attention to directions, then one of diffusion."""

    def __init__(self, in_channels: int, hidden_channels: int, out_channels: int) -> None:
        super().__init__()
        self.conv1 = PDGATConv(in_channels, hidden_channels // 4, heads=4, residual=True)
        self.conv2 = PDGCNConv(hidden_channels, out_channels, gamma=0.3)

    def forward(self, data: Data) -> Tensor:
        """Logits of the nodes of a part, or of the whole graph."""
        h = self.conv1(data.x, data.edge_index, data.edge_attr).relu()
        target = data.edge_index[1]
        here = degree(target, data.num_nodes)  # [N], edges of the part
        weight = (data.degree / here)[target]  # [E], each stands for those that are not here
        return self.conv2(h, data.edge_index, weight, degree=data.degree)


def whole_graph() -> Data:
    """A generated graph, its degrees ``[N]`` and the directions of its edges ``[E, 2]``."""
    data = datasets.load("synthetic:num_nodes=1500,homophily=0.2")
    data.degree = degree(data.edge_index[1], data.num_nodes)
    data = AddDirectionFeatures(gamma=0.3)(data)
    data.train_mask, data.test_mask = data.train_mask[:, 0], data.test_mask[:, 0]
    return data


def parts(data: Data) -> NeighborLoader | RandomNodeLoader:
    """Batches; the first `batch_size` nodes of a sampled one are those it was drawn for."""
    if WITH_PYG_LIB or WITH_TORCH_SPARSE:
        sizes = [-1, -1]  # all neighbours; see docs/layers.md on fewer
        return NeighborLoader(
            data, sizes, input_nodes=data.train_mask, batch_size=256, shuffle=True
        )
    return RandomNodeLoader(data, num_parts=4, shuffle=True)


def main() -> None:
    """Train for a while; the test score is that on the whole graph."""
    seed_everything(0)
    data = whole_graph()
    model = Net(data.num_features, 32, int(data.y.max()) + 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(1, 31):
        model.train()
        for batch in parts(data):
            mask = batch.train_mask.clone()
            if "batch_size" in batch:
                mask[batch.batch_size :] = False
            loss = F.cross_entropy(model(batch)[mask], batch.y[mask])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if epoch % 10 == 0:
            model.eval()
            with torch.no_grad():
                right = (model(data).argmax(dim=1) == data.y)[data.test_mask]
            print(f"epoch {epoch}: loss {loss:.3f}, test accuracy {right.float().mean():.3f}")


if __name__ == "__main__":
    main()
