"""Layers for any PyG model, the residual backbone, and the paper's two models as modules."""

from pdgnn.nn.backbone import Backbone, SeededModule
from pdgnn.nn.conv_gat import PDGATConv
from pdgnn.nn.conv_gcn import PDGCNConv
from pdgnn.nn.dropout import Dropout
from pdgnn.nn.features import SparseFeatures, compact_features
from pdgnn.nn.inputs import graph_inputs
from pdgnn.nn.models import PDGAT, PDGCN

__all__ = [
    "PDGAT",
    "PDGCN",
    "Backbone",
    "Dropout",
    "PDGATConv",
    "PDGCNConv",
    "SeededModule",
    "SparseFeatures",
    "compact_features",
    "graph_inputs",
]
