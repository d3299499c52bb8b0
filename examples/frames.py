"""Tables in memory: pyarrow here; a pandas or Polars frame is handed over in the same way.

Run it as it is: ``python examples/frames.py``.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from pdgnn import PDClassifier

STAFF = Path(__file__).parent / "staff"


def main() -> None:
    """Fit on two tables, and join the predictions to the people."""
    options = csv.ConvertOptions(strings_can_be_null=True)
    people = csv.read_csv(STAFF / "nodes.csv", convert_options=options)
    work = csv.read_csv(STAFF / "edges.csv")

    clf = PDClassifier(model="pd-logistic", minutes=0.05)
    clf.fit(nodes=people, edges=work, label="role", drop=["tenure"])
    print(clf.estimate_.sentence)

    proba = clf.predict_proba()  # [N, C], a row for each of people
    named = people.append_column("prediction", pa.array(clf.predict()))
    named = named.append_column("probability", pa.array(proba.max(axis=1)))
    unknown = named.filter(pc.is_null(named["role"])).sort_by([("probability", "descending")])
    print("surest of those without a role:")
    for row in unknown.select(["id", "site", "prediction", "probability"]).slice(0, 3).to_pylist():
        print(row)


if __name__ == "__main__":
    main()
