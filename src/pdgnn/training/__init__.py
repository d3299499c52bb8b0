"""Training: what a run is, and a trainer that takes many of them at once."""

from pdgnn.models import MODELS, Model, Option, Size
from pdgnn.training.loop import Progress
from pdgnn.training.spec import PRECISIONS, RunResult, RunSpec
from pdgnn.training.summary import Summary, chosen, summarize, to_arrow
from pdgnn.training.task import Task
from pdgnn.training.trainer import train

__all__ = [
    "MODELS",
    "PRECISIONS",
    "Model",
    "Option",
    "Progress",
    "RunResult",
    "RunSpec",
    "Size",
    "Summary",
    "Task",
    "chosen",
    "summarize",
    "to_arrow",
    "train",
]
