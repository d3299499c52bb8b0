"""PDGCNConv and PDGATConv in an ordinary PyG model and training loop.

Run it as it is: ``python examples/layers.py``.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch_geometric import seed_everything

from pdgnn import datasets
from pdgnn.nn import PDGATConv, PDGCNConv
from pdgnn.transforms import AddDirectionFeatures


class Net(nn.Module):
    """Diffusion, whose scope is learnt, beside attention to the directions of edges."""

    def __init__(self, in_channels: int, hidden_channels: int, out_channels: int) -> None:
        super().__init__()
        self.gcn = PDGCNConv(in_channels, hidden_channels, alpha=0.5, gamma=0.5, learn=True)
        self.gat = PDGATConv(in_channels, hidden_channels // 4, heads=4)
        self.out = nn.Linear(2 * hidden_channels, out_channels)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        """Logits ``[N, out_channels]``."""
        h = torch.cat([self.gcn(x, edge_index), self.gat(x, edge_index, edge_attr)], dim=1)
        return self.out(h.relu())


def main() -> None:
    """Train on the first split of a generated graph."""
    seed_everything(0)
    data = datasets.load("synthetic:num_nodes=600,num_classes=5,homophily=0.1")
    data = AddDirectionFeatures(gamma=0.3)(data)  # edge_attr [E, 2]
    train, test = data.train_mask[:, 0], data.test_mask[:, 0]
    model = Net(data.num_features, 32, 5)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for epoch in range(1, 91):
        model.train()
        out = model(data.x, data.edge_index, data.edge_attr)
        loss = F.cross_entropy(out[train], data.y[train])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if epoch % 30 == 0:
            model.eval()
            with torch.no_grad():
                out = model(data.x, data.edge_index, data.edge_attr)
            right = (out.argmax(dim=1) == data.y)[test].float().mean()
            print(f"epoch {epoch}: loss {loss:.3f}, test accuracy {right:.3f}")


if __name__ == "__main__":
    main()
