"""A fitted classifier in a folder: plain JSON, safetensors, text and Parquet; nothing to unpickle.

- ``config.json``: parameters, classes, how columns become features, the members, versions, and
  the SHA-256 of every other file that is read back;
- ``model.safetensors``: the weights and arrays of all members; ``*.txt``: boosted trees;
- ``predictions.parquet``: the nodes that it was fitted on, and the probabilities of each;
- ``metrics.json``: the estimate, the leaderboard and the dial; ``README.md``: the model card;
- ``report.html``: the page.

The folder is written under a temporary name and renamed when it is complete.
"""

from __future__ import annotations

import hashlib
import json
import math
import platform
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pdgnn.errors import DAMAGE, InputError
from pdgnn.estimator.card import model_card
from pdgnn.estimator.columns import ColumnEncoder
from pdgnn.estimator.members import Member
from pdgnn.estimator.networks import NetworkModel
from pdgnn.estimator.scores import Estimate
from pdgnn.estimator.tabular import TabularModel
from pdgnn.io.atomic import replacing_folder
from pdgnn.io.tensors import save_tensors
from pdgnn.io.write import check_model_folder
from pdgnn.training.provenance import version_of

if TYPE_CHECKING:
    from pdgnn.estimator.classifier import PDClassifier

__all__ = ["load_classifier", "save_classifier"]

FORMAT = 1
CONFIG, TENSORS, NODES, METRICS = (
    "config.json",
    "model.safetensors",
    "predictions.parquet",
    "metrics.json",
)
PREDICTORS: dict[str, type[NetworkModel | TabularModel]] = {
    "network": NetworkModel,
    "table": TabularModel,
}
VERSIONS = ("pdgnn", "numpy", "scipy", "scikit-learn", "lightgbm", "torch", "torch-geometric")
FACTS = ("model_", "alpha_", "gamma_", "depth_", "rewired_", "metric_", "notes_")


def save_classifier(
    clf: PDClassifier, folder: str | PathLike[str], *, force: bool = False, page: str | None = None
) -> None:
    """Write the folder, and `page` as its ``report.html``.

    One that is there is replaced if it is a model's and `force` is given.
    """
    target = check_model_folder(folder, force=force)
    with replacing_folder(target) as partial:
        _write(clf, partial)
        if page is not None:
            (partial / "report.html").write_text(page, encoding="utf-8")


def _write(clf: PDClassifier, folder: Path) -> None:
    import torch

    arrays: dict[str, np.ndarray[Any, Any]] = {}
    members = []
    for i, member in enumerate(clf.members_):
        models = []
        for j, model in enumerate(member.models):
            kind = next(k for k, cls in PREDICTORS.items() if isinstance(model, cls))
            about, own, texts = model.state()
            arrays |= {f"{i}.{j}.{name}": a for name, a in own.items()}
            files = {name: f"member-{i}-{j}-{name}" for name in texts}
            for name, text in texts.items():
                (folder / files[name]).write_text(text, encoding="utf-8")
            models.append({"kind": kind, "about": about, "files": files})
        members.append({**_plain(member), "models": models})
    arrays["honest"], arrays["y"], arrays["part"] = clf.honest_, clf.y_, clf.part_
    # copies, as torch takes no array that is read-only
    tensors = {name: torch.from_numpy(np.array(a)) for name, a in arrays.items()}
    save_tensors(folder / TENSORS, tensors)
    _write_nodes(clf, folder / NODES)
    metrics = {
        "estimate": asdict(clf.estimate_),
        "leaderboard": clf.leaderboard_,
        "dial": clf.dial_,
    }
    _write_json(folder / METRICS, metrics)
    config = {
        "format": FORMAT,
        "versions": {name: version_of(name) for name in VERSIONS},
        "python": platform.python_version(),
        "params": clf.get_params(),
        "classes": clf.classes_.tolist(),
        "encoder": None if clf.encoder_ is None else clf.encoder_.to_dict(),
        "features": clf.n_features_in_,
        "facts": {name: getattr(clf, name) for name in FACTS},
        "id_name": clf.id_name_,
        "label_name": clf.label_name_,
        "dropped": list(clf.dropped_),
        "members": members,
    }
    config["files"] = {
        file.name: _digest(file) for file in sorted(folder.iterdir()) if file.name != "README.md"
    }
    (folder / "README.md").write_text(model_card(clf), encoding="utf-8")
    _write_json(folder / CONFIG, config)


def _plain(member: Member) -> dict[str, Any]:
    names = ("name", "model", "settings", "graph", "val", "seconds")
    return {name: getattr(member, name) for name in names}


def _write_nodes(clf: PDClassifier, path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {"id": pa.array(clf.ids_.tolist())}
    columns |= {f"p{c}": pa.array(clf.proba_[:, c]) for c in range(len(clf.classes_))}
    pq.write_table(pa.table(columns), path)


def _write_json(path: Path, values: Any) -> None:
    text = json.dumps(_without_nan(values), indent=1, ensure_ascii=False, allow_nan=False)
    path.write_text(text, encoding="utf-8")


def _without_nan(values: Any) -> Any:
    """NumPy's numbers as Python's, and None for nan and inf, which JSON does not have."""
    if isinstance(values, dict):
        return {str(k): _without_nan(v) for k, v in values.items()}
    if isinstance(values, list | tuple):
        return [_without_nan(v) for v in values]
    if isinstance(values, np.generic):
        values = values.item()
    return None if isinstance(values, float) and not math.isfinite(values) else values


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def load_classifier(folder: str | PathLike[str]) -> PDClassifier:
    """Read the folder back; damage, another version or a changed file is an error that says so."""
    path = Path(folder)
    try:
        config = _config(path)
        _check_files(path, config)
        return _read(path, config)
    except InputError as e:
        said = str(e)
        raise (e if said.startswith(str(path)) else InputError(f"{path}: {said}")) from e
    except OSError as e:
        raise InputError(f"{path}: cannot be read: {e.strerror or e}") from e
    except DAMAGE as e:
        said = str(e).partition("\n")[0][:100]
        raise InputError(f"{path}: the model is damaged ({said}); fit it anew") from e


def _config(path: Path) -> dict[str, Any]:
    if not path.is_dir():
        raise InputError("there is no such folder; name the one that pdgnn fit -o, or save, wrote")
    if not (path / CONFIG).is_file():
        raise InputError("this is not the folder of a model: there is no config.json in it")
    config = json.loads((path / CONFIG).read_text(encoding="utf-8"))
    found = config.get("format") if isinstance(config, dict) else None
    if isinstance(found, int) and found > FORMAT:
        raise InputError(f"the model is of format {found}, which is newer; update pdgnn")
    if found != FORMAT:
        raise InputError("config.json is not that of a model; fit it anew")
    return dict(config)


def _check_files(path: Path, config: dict[str, Any]) -> None:
    files = config["files"]
    if not {TENSORS, NODES, METRICS} <= files.keys():
        raise InputError("config.json does not name all files of a model; fit it anew")
    for name, digest in files.items():
        if Path(name).name != name:
            raise InputError(f"config.json names a file outside of the folder: {name[:60]!r}")
        if not (path / name).is_file():
            raise InputError(f"{name} is missing; fit the model anew")
        if _digest(path / name) != digest:
            raise InputError(f"{name} is not the file that was saved; fit the model anew")


def _read(path: Path, config: dict[str, Any]) -> PDClassifier:
    import pyarrow.parquet as pq
    from safetensors.numpy import load_file

    from pdgnn.estimator.classifier import PDClassifier

    arrays = load_file(str(path / TENSORS))
    clf = PDClassifier(**config["params"])
    clf.classes_ = np.array(config["classes"])
    encoder = config["encoder"]
    clf.encoder_ = None if encoder is None else ColumnEncoder.from_dict(encoder)
    clf.n_features_in_ = int(config["features"])
    for name in FACTS:
        setattr(clf, name, config["facts"][name])
    clf.id_name_, clf.label_name_ = config["id_name"], config["label_name"]
    clf.dropped_ = tuple(config["dropped"])
    nodes = pq.read_table(path / NODES)
    clf.ids_ = nodes.column("id").to_numpy(zero_copy_only=False)
    clf.proba_ = np.stack([nodes.column(f"p{c}") for c in range(len(clf.classes_))], axis=1)
    clf.honest_, clf.y_, clf.part_ = (arrays.pop(n) for n in ("honest", "y", "part"))
    if not len(clf.y_) == len(clf.ids_) == len(clf.part_) == len(clf.honest_):
        raise InputError("the parts of the model do not fit each other; fit it anew")
    metrics = json.loads((path / METRICS).read_text(encoding="utf-8"))
    clf.estimate_ = _estimate(metrics["estimate"])
    clf.leaderboard_, clf.dial_ = metrics["leaderboard"], metrics["dial"]
    known = set(config["files"])
    clf.members_ = [_member(path, i, m, arrays, known) for i, m in enumerate(config["members"])]
    return clf


def _estimate(values: dict[str, Any]) -> Estimate:
    numbers = {n: _nan(values[n]) for n in ("score", "low", "high")}
    baselines = {n: tuple(_nan(v) for v in three) for n, three in values["baselines"].items()}
    return Estimate(**{**values, **numbers, "baselines": baselines})


def _nan(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _member(
    path: Path, i: int, said: dict[str, Any], arrays: dict[str, Any], known: set[str]
) -> Member:
    """The member number `i`; its texts are among the files that are `known` and checked."""
    models = []
    for j, about in enumerate(said["models"]):
        prefix = f"{i}.{j}."
        own = {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}
        if not set(about["files"].values()) <= known:
            raise InputError("config.json names a file that is not the model's; fit it anew")
        texts = {n: (path / f).read_text(encoding="utf-8") for n, f in about["files"].items()}
        models.append(PREDICTORS[about["kind"]].from_state(about["about"], own, texts))
    plain = {k: v for k, v in said.items() if k != "models"}
    return Member(**plain, models=models, proba=[])
