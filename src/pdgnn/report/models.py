"""The models of the registry as a table for a terminal."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import RenderableType

from pdgnn.models import Model
from pdgnn.report.grid import Grid

__all__ = ["models_text"]


def models_text(models: Mapping[str, Model]) -> RenderableType:
    """A line for each: its name, what tables call it, the settings it uses and its options."""
    table = Grid()
    for column in ("model", "in tables", "uses", "options"):
        table.add_column(column)
    for name, model in models.items():
        options = [
            f"{key}={option.default}" + (f" ({option.help})" if option.help else "")
            for key, option in model.options.items()
        ]
        uses = ", ".join(model.uses)
        table.add_row(name, model.name or name, uses, ", ".join(options) or "-")
    return table
