"""The paper's tables and figures as data, the runs that make them anew, and what comes of them."""

from pdgnn.experiments.reproduction import reproduce

__all__ = ["reproduce"]
