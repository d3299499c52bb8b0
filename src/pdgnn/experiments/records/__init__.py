"""The package's own records: settings found by validation alone, beside the published bests.

- :mod:`~pdgnn.experiments.records.spaces`: what is tried on each graph, as data;
- :mod:`~pdgnn.experiments.records.published`: the best published scores, and their sources;
- :mod:`~pdgnn.experiments.records.winners`: what a measured search has chosen;
- :mod:`~pdgnn.experiments.records.work`: search, final runs and ablations;
- :mod:`~pdgnn.experiments.records.outcome`: the table.
"""

from __future__ import annotations

from pdgnn.experiments.records.outcome import RecordTable, gather_records
from pdgnn.experiments.records.work import Records, RecordsRequest

__all__ = ["RecordTable", "Records", "RecordsRequest", "gather_records"]
