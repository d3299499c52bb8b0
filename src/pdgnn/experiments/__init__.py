"""The paper's tables and figures as data, the runs that reproduce them, and the comparison."""

from pdgnn.experiments.reproduction import reproduce

__all__ = ["reproduce"]
