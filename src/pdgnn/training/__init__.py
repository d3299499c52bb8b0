"""Training: what a run is, a trainer that takes many of them at once, and a search among them."""

from pdgnn.models import MODELS, Model, Option, Size
from pdgnn.training.halving import Rung, SearchProgress, Standing
from pdgnn.training.loop import Progress
from pdgnn.training.search import SearchResult, search
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
    "Rung",
    "SearchProgress",
    "SearchResult",
    "Size",
    "Standing",
    "Summary",
    "Task",
    "chosen",
    "search",
    "summarize",
    "to_arrow",
    "train",
]
