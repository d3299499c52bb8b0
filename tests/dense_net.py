"""PD-Net by its formula, with dense matrices."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from pdgnn import Graph, diffusion_matrix, direction_features, eigenpairs
from pdgnn.nn import PDNet
from pdgnn.ops import dropout
from published import adjacency, with_loops


class Dense:
    """The whole forward pass of the formula, with dense matrices and z put together."""

    def __init__(self, net: PDNet, graph: Graph) -> None:
        self.net, self.graph, self.state = net, graph, net.state_dict()
        self.norm, self.inject = net.layers[0].norm, net.layers[0].inject
        self.width, self.drawn = net.lin_in.out_features, 0
        self.seen: list[Tensor] = []  # before each norm

    def messages(self, z: Tensor, at: str) -> list[Tensor]:
        """W_s P_s z of each aggregation; channel by channel where scopes are learned."""
        kind, a = self.net.aggregation, adjacency(self.graph)
        if kind == "gat":
            return []
        y = (z @ self.weight(f"{at}.lin_scopes").T).view(len(z), -1, self.width)  # [N, S, D]
        if self.net.learned:
            pairs = zip(self.state["scope_alpha"], self.state["scope_gamma"], strict=True)
            columns = [
                torch.stack(
                    [
                        self.diffusion(float(alpha[c]), float(gamma[c])) @ y[:, s, c]
                        for c in range(self.width)
                    ],
                    dim=1,
                )
                for s, (alpha, gamma) in enumerate(pairs)
            ]
            return columns
        if kind == "pd":
            matrices = [self.diffusion(*scope) for scope in self.net.scopes]
        elif kind == "gcn":
            matrices = [with_loops(a)]
        else:
            matrices = [a / a.sum(1, keepdim=True).clamp(min=1e-300)]
        return [matrix @ y[:, s] for s, matrix in enumerate(matrices)]

    def diffusion(self, alpha: float, gamma: float) -> Tensor:
        return torch.from_numpy(diffusion_matrix(self.graph, alpha=alpha, gamma=gamma).toarray())

    def attended(self, z: Tensor, at: str) -> Tensor:
        """Attention over neighbours and the node itself, head by head."""
        y, pattern = z @ self.weight(f"{at}.lin_attend").T, adjacency(self.graph) > 0
        pattern = pattern | torch.eye(len(z), dtype=torch.bool)
        source, target = (self.state[f"{at}.attention.att_{end}"] for end in ("src", "dst"))
        heads, out = len(source), []
        for head, own in enumerate(y.chunk(heads, dim=1)):
            score = (own @ target[head])[:, None] + (own @ source[head])[None, :]  # [i, j]
            if self.net.attention:
                part = self.width // heads
                rows = self.state[f"{at}.attention.lin_edge.weight"][head * part :][:part]
                score = score + self.directions() @ (
                    rows.T @ self.state[f"{at}.attention.att_edge"][head]
                )
            score = torch.nn.functional.leaky_relu(score, 0.2).masked_fill(~pattern, -math.inf)
            out.append(score.softmax(dim=1) @ own)
        return torch.cat(out, dim=1)

    def directions(self) -> Tensor:
        """f_ij, ``[N, N, 2]``: row the target, column the source."""
        alpha, gamma = self.net.scopes[0]
        n, phi = self.graph.num_nodes, eigenpairs(self.graph, gamma=gamma).eigenvectors(alpha)[:, 0]
        index = torch.cat([self.graph.edge_index, torch.arange(n).expand(2, -1)], dim=1)
        found = torch.zeros(n, n, 2, dtype=torch.float64)
        values = direction_features(self.graph, phi, edge_index=index).double()
        found[index[1], index[0]] = values
        return found

    def weight(self, name: str) -> Tensor:
        """W of z, of which W_0 is the part for h0."""
        parts = [self.state[f"{name}.weight{end}"] for end in ("", "0")[: 1 + self.inject]]
        return torch.cat(parts, dim=1)

    def layer(self, h: Tensor, h0: Tensor, at: str) -> Tensor:
        z = torch.cat([h, h0], dim=1) if self.inject else h
        x = sum(self.messages(z, at), torch.zeros_like(h))
        if f"{at}.lin_self.weight" in self.state:
            x = x + z @ self.weight(f"{at}.lin_self").T
        if f"{at}.lin_attend.weight" in self.state:
            x = x + self.attended(z, at)
        if self.norm != "batch":
            x = x + self.state[f"{at}.bias"]
        self.seen.append(x)
        if self.net.running_mean is not None and not self.net.training:
            number, layer = divmod(len(self.seen) - 1, len(self.net.layers))
            number = min(number, len(self.net.running_mean) - 1)
            x = x - self.net.running_mean[number, layer]
            x = x / (self.net.running_var[number, layer] + 1e-5).sqrt()
            x = x * self.state[f"{at}.norm_weight"] + self.state[f"{at}.norm_bias"]
        elif self.norm != "none":
            dim = 0 if self.norm == "batch" else 1
            x = x - x.mean(dim=dim, keepdim=True)
            x = x / (x.square().mean(dim=dim, keepdim=True) + 1e-5).sqrt()
            x = x * self.state[f"{at}.norm_weight"] + self.state[f"{at}.norm_bias"]
        x = x.clamp(min=0)
        if self.net.training:
            one = (self.net.rate.float(), self.net.seed, self.net.step)
            x = dropout(x, *one, layer=self.drawn)
            self.drawn += 1
        return x

    def __call__(self, x: Tensor, rounds: int | None = None) -> Tensor:
        h0 = x @ self.state["lin_in.weight"].T + self.state["lin_in.bias"]
        if self.net.eigenvectors:
            alpha, gamma = self.net.scopes[0]
            phi = eigenpairs(self.graph, gamma=gamma, k=self.net.eigenvectors).eigenvectors(alpha)
            phi = torch.from_numpy(phi) * math.sqrt(len(x))
            h0 = h0 + phi @ self.state["lin_phi.weight"].T
        h = h0
        for _ in range(rounds or self.net.rounds):
            for i in range(len(self.net.layers)):
                h = self.layer(h, h0, f"layers.{i}")
        return h @ self.state["lin_out.weight"].T + self.state["lin_out.bias"]
