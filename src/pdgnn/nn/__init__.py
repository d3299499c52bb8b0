"""Layers for any PyG model, the residual backbone, the paper's two models and PD-Net as modules."""

from pdgnn.nn.backbone import Backbone, SeededModule
from pdgnn.nn.conv_gat import PDGATConv
from pdgnn.nn.conv_gcn import PDGCNConv
from pdgnn.nn.dropout import Dropout
from pdgnn.nn.features import SparseFeatures, compact_features
from pdgnn.nn.inputs import graph_inputs
from pdgnn.nn.models import PDGAT, PDGCN
from pdgnn.nn.pd_net import PDNet

__all__ = [
    "PDGAT",
    "PDGCN",
    "Backbone",
    "Dropout",
    "PDGATConv",
    "PDGCNConv",
    "PDNet",
    "SeededModule",
    "SparseFeatures",
    "compact_features",
    "graph_inputs",
]
