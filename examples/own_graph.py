"""From two CSV files to predictions: a company, who works with whom, and the roles of some people.

The files lie in ``examples/staff``. A third of the people have no role: theirs is predicted.

Run it as it is: ``python examples/own_graph.py``.
"""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

from pdgnn import PDClassifier

STAFF = Path(__file__).parent / "staff"


def unlabelled(path: Path) -> list[tuple[int, str]]:
    """The place in the file and the id of everybody without a role."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return [(i, row["id"]) for i, row in enumerate(rows) if not row["role"]]


def main() -> None:
    """Fit, say how good it is, predict, save, load."""
    nodes, edges = STAFF / "nodes.csv", STAFF / "edges.csv"
    # one quick kind for a first look; PDClassifier() tries many, for two minutes
    clf = PDClassifier(model="pd-logistic", minutes=0.05)
    clf.fit(nodes=nodes, edges=edges, label="role")
    found = clf.estimate_
    print(f"{clf.model_} of {len(clf.leaderboard_)} that were tried")
    print(f"accuracy {found.score:.2f}, 95 % interval {found.low:.2f} to {found.high:.2f}")
    print(found.sentence)

    guess, proba = clf.predict(), clf.predict_proba()
    for row, name in unlabelled(nodes)[:3]:
        print(f"{name}: {guess[row]}, probability {proba[row].max():.2f}")

    folder = Path("staff-model")
    if folder.exists():
        shutil.rmtree(folder)
    clf.save(folder)
    again = PDClassifier.load(folder)
    assert (again.predict() == guess).all()
    print(f"saved in {folder}: open {folder / 'report.html'} in a browser")


if __name__ == "__main__":
    main()
