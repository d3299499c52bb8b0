"""Layers for any PyG model, the residual backbone, and the models by name."""

from pdgnn.nn.backbone import Backbone
from pdgnn.nn.conv_gat import PDGATConv
from pdgnn.nn.conv_gcn import PDGCNConv
from pdgnn.nn.features import SparseFeatures, compact_features
from pdgnn.nn.inputs import GraphInputs, prepare
from pdgnn.nn.models import MODELS, PDGAT, PDGCN, build

__all__ = [
    "MODELS",
    "PDGAT",
    "PDGCN",
    "Backbone",
    "GraphInputs",
    "PDGATConv",
    "PDGCNConv",
    "SparseFeatures",
    "build",
    "compact_features",
    "prepare",
]
