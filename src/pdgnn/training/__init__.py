"""Training: what a run is, and a trainer that takes many of them at once."""

from pdgnn.training.loop import Progress
from pdgnn.training.spec import PRECISIONS, RunResult, RunSpec
from pdgnn.training.task import Task
from pdgnn.training.trainer import train

__all__ = ["PRECISIONS", "Progress", "RunResult", "RunSpec", "Task", "train"]
