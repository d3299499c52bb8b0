from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from pdgnn import Graph, datasets
from pdgnn.datasets import REGISTRY
from pdgnn.errors import InputError

UNVERIFIED = "no checksum of .* is known"
pytestmark = pytest.mark.filterwarnings(f"ignore:.*{UNVERIFIED}")

# nodes, undirected edges, features, classes, metric, as published.
PUBLISHED = {
    "cora": (2708, 5278, 1433, 7, "accuracy"),
    "citeseer": (3327, 4552, 3703, 6, "accuracy"),
    "pubmed": (19717, 44324, 500, 3, "accuracy"),
    "roman-empire": (22662, 32927, 300, 18, "accuracy"),
    "amazon-ratings": (24492, 93050, 300, 5, "accuracy"),
    "minesweeper": (10000, 39402, 7, 2, "roc_auc"),
    "tolokers": (11758, 519000, 10, 2, "roc_auc"),
    "questions": (48921, 153540, 301, 2, "roc_auc"),
    "squirrel-filtered": (2223, 46998, 2089, 5, "accuracy"),
    "chameleon-filtered": (890, 8854, 2325, 5, "accuracy"),
}
ABSENT = ("roman-empire", "amazon-ratings", "questions")
AT_HAND = [name for name in PUBLISHED if name not in ABSENT]
PYG_CITATION = {"cora": "Cora", "citeseer": "CiteSeer", "pubmed": "PubMed"}


@pytest.fixture(autouse=True)
def no_web(monkeypatch):
    def urlopen(url: str, timeout: float):
        raise OSError("no web in tests")

    monkeypatch.setattr("urllib.request.urlopen", urlopen)


def small_arrays(**changed: object) -> dict[str, np.ndarray]:
    """A benchmark file of 6 nodes and 3 splits, with an edge doubled and a self-loop."""
    part = np.array([[0, 0, 0, 1, 1, 2], [1, 2, 0, 0, 0, 1], [0, 1, 2, 0, 1, 2]])
    arrays = {
        "node_features": np.arange(12, dtype=np.float32).reshape(6, 2),
        "node_labels": np.array([0, 1, 0, 1, 1, 0]),
        "edges": np.array([[0, 1], [1, 0], [1, 2], [3, 4], [5, 5]]),
        "train_masks": part == 0,
        "val_masks": part == 1,
        "test_masks": part == 2,
    }
    return {key: value for key, value in {**arrays, **changed}.items() if value is not None}


def written(root: Path, name: str, **changed: object) -> Path:
    path = root / REGISTRY[name].folder / REGISTRY[name].files[0].name
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **small_arrays(**changed))
    return path


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_registry_says_what_the_paper_says(name):
    info = REGISTRY[name]
    assert info.name == name
    stated = (info.nodes, info.edges, info.features, info.classes, info.metric)
    assert stated == PUBLISHED[name]


@pytest.mark.parametrize("name", AT_HAND)
def test_published_statistics_and_types(name, data_root):
    data = datasets.load(name, data_root)
    nodes, edges, features, classes, metric = PUBLISHED[name]
    g = Graph.from_data(data)
    assert (g.num_nodes, g.num_edges) == (nodes, edges)
    assert torch.equal(data.edge_index, g.edge_index)
    assert not g.report.changed
    assert (data.x.shape, data.x.dtype) == ((nodes, features), torch.float32)
    assert (data.y.shape, data.y.dtype) == ((nodes,), torch.int64)
    assert data.y.unique().tolist() == list(range(classes))
    for mask in (data.train_mask, data.val_mask, data.test_mask):
        assert (mask.shape, mask.dtype) == ((nodes, 10), torch.bool)
        assert mask.any(0).all()
    parts = data.train_mask.int() + data.val_mask.int() + data.test_mask.int()
    assert int(parts.max()) == 1
    assert (data.name, data.metric) == (name, metric)


COVERED = {
    "cora": [2485] * 10,
    "citeseer": [3327] * 4 + [2120] * 2 + [3327] * 4,
    "pubmed": [19717] * 10,
}


@pytest.mark.parametrize("name", COVERED)
def test_geom_gcn_splits_are_48_32_20_of_the_nodes_they_cover(name, data_root):
    data = datasets.load(name, data_root)
    train, val, test = (m.sum(0) for m in (data.train_mask, data.val_mask, data.test_mask))
    covered = train + val + test
    assert covered.tolist() == COVERED[name]
    assert torch.allclose(train / covered, torch.tensor(0.48), atol=1e-3)
    assert torch.allclose(val / covered, torch.tensor(0.32), atol=1e-3)


@pytest.mark.parametrize("name", ["cora", "citeseer", "minesweeper", "tolokers"])
def test_it_is_what_pyg_reads(name, data_root, tmp_path):
    from torch_geometric.datasets import HeterophilousGraphDataset, Planetoid

    folder = REGISTRY[name].folder
    shutil.copytree(data_root / folder, tmp_path / folder)
    (tmp_path / folder).parent.chmod(0o755)
    if name in PYG_CITATION:
        theirs = Planetoid(str(tmp_path), PYG_CITATION[name], split="geom-gcn")[0]
    else:
        theirs = HeterophilousGraphDataset(str(tmp_path), name)[0]
    ours = datasets.load(name, data_root)
    for key in ("x", "y", "train_mask", "val_mask", "test_mask"):
        assert torch.equal(ours[key], theirs[key]), key
    assert Graph.from_data(ours) == Graph.from_data(theirs)


@pytest.mark.parametrize("name", ["cora", "minesweeper", "chameleon-filtered"])
def test_a_read_only_root_is_enough_and_stays_as_it_is(name, data_root, tmp_path):
    folder = tmp_path / REGISTRY[name].folder
    shutil.copytree(data_root / REGISTRY[name].folder, folder)
    before = sorted(tmp_path.rglob("*"))
    for path in (folder, *folder.parents):
        if path.is_relative_to(tmp_path):
            path.chmod(0o555)
    try:
        assert datasets.load(name, tmp_path).num_nodes == PUBLISHED[name][0]
        assert sorted(tmp_path.rglob("*")) == before
    finally:
        for path in (tmp_path, *before):
            path.chmod(0o755)


@pytest.mark.parametrize("victim", ["ind.cora.graph", "cora_split_0.6_0.2_7.npz"])
def test_a_changed_file_is_neither_read_nor_unpickled(victim, data_root, tmp_path, monkeypatch):
    folder = tmp_path / REGISTRY["cora"].folder
    shutil.copytree(data_root / REGISTRY["cora"].folder, folder)
    (folder / victim).chmod(0o644)
    (folder / victim).write_bytes((folder / victim).read_bytes() + b"\0")

    def unpickled(*args: object) -> None:
        raise AssertionError("an unverified file was unpickled")

    monkeypatch.setattr("torch_geometric.io.read_planetoid_data", unpickled)
    with pytest.raises(InputError, match=f"{victim} is not the published file"):
        datasets.load("cora", tmp_path)


def test_a_processed_file_in_the_root_is_not_looked_at(data_root, tmp_path):
    raw = tmp_path / "minesweeper" / "raw"
    shutil.copytree(data_root / "minesweeper" / "raw", raw)
    raw.parent.joinpath("processed").mkdir()
    raw.parent.joinpath("processed", "data.pt").write_bytes(b"anything at all")
    assert datasets.load("minesweeper", tmp_path).num_nodes == 10000


@pytest.mark.parametrize("name", ["cora", "roman-empire", "squirrel-filtered"])
def test_a_missing_graph_says_what_to_fetch_and_where_to_put_it(name, tmp_path):
    with pytest.raises(InputError) as caught:
        datasets.load(name, tmp_path)
    message = str(caught.value)
    info = REGISTRY[name]
    assert message.startswith(f"{tmp_path}/{info.folder} lacks files that could not be fetched")
    assert "no web in tests" in message
    assert all(file.name in message and file.source in message for file in info.files)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ABSENT)
def test_a_small_file_of_the_same_form(name, tmp_path):
    from torch_geometric.datasets import HeterophilousGraphDataset

    written(tmp_path, name)
    data = datasets.load(name, tmp_path)
    assert data.x.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10, 11]]
    assert data.y.tolist() == [0, 1, 0, 1, 1, 0]
    assert data.edge_index.tolist() == [[0, 1, 1, 2, 3, 4], [1, 0, 2, 1, 4, 3]]
    assert data.train_mask.shape == (6, 3)
    assert data.val_mask[:, 1].tolist() == [True, False, False, False, False, True]
    assert (data.name, data.metric) == (name, PUBLISHED[name][-1])
    theirs = HeterophilousGraphDataset(str(tmp_path), name)[0]
    assert Graph.from_data(theirs) == Graph.from_data(data)
    assert torch.equal(theirs.test_mask, data.test_mask)


def test_environment_names_the_root(tmp_path, monkeypatch):
    written(tmp_path, "questions")
    monkeypatch.setenv("PDGNN_DATA", str(tmp_path))
    assert datasets.load("questions").num_nodes == 6


def test_features_of_other_numbers_become_float32(tmp_path):
    written(tmp_path, "questions", node_features=np.eye(6, dtype=np.int16))
    data = datasets.load("questions", tmp_path)
    assert data.x.dtype == torch.float32
    assert torch.equal(data.x, torch.eye(6))


MASKS = small_arrays()["train_masks"]
BAD_ARRAYS = [
    ({"node_labels": None}, "questions.npz: it lacks node_features, node_labels or masks"),
    ({"edges": None}, "questions.npz: there is no array 'edges'"),
    ({"val_masks": None}, "val_masks is missing"),
    (
        {"node_labels": np.array([0, 1, 2, 1, 1, 0])},
        "from 0 to 2; the graph has the classes 0 to 1",
    ),
    ({"node_labels": np.array([0, 1, -1, 1, 1, 0])}, "from -1 to 1"),
    ({"node_labels": np.zeros(5, dtype=int)}, "do not agree on the number of nodes"),
    ({"node_labels": np.zeros(6)}, "node_labels holds float64"),
    ({"node_features": np.zeros(6)}, r"node_features has shape \(6,\)"),
    ({"node_features": np.full((6, 2), "a")}, "features must be real numbers"),
    ({"node_features": np.zeros((0, 2))}, "do not agree on the number of nodes"),
    ({"node_features": np.full((6, 2), np.nan)}, "node 0 has a feature that is not finite"),
    ({"edges": np.array([[0, 6]])}, "but there are 6 nodes"),
    ({"edges": np.array([[0, -1]])}, "ids are counted from 0"),
    ({"edges": np.array([[0, 1, 2], [1, 2, 3]])}, r"edges has shape \(2, 3\)"),
    ({"edges": np.array([[0.0, 1.0]])}, "edges holds float64"),
    ({"test_masks": 2 * MASKS.astype(int)}, "test_masks holds more than true and false"),
    ({"val_masks": MASKS[:2]}, "do not agree on the number of splits"),
    ({"train_masks": MASKS.T}, "do not agree on the number of"),
    ({"train_masks": np.array(True)}, r"train_masks has shape \(\)"),
    ({"test_masks": MASKS}, "two of train, val and test"),
    ({"edges": np.array([[0, 1]], dtype=object)}, "pickled, which is refused"),
]


@pytest.mark.parametrize(("changed", "message"), BAD_ARRAYS)
def test_files_that_cannot_be_used(changed, message, tmp_path):
    written(tmp_path, "questions", **changed)
    with pytest.raises(InputError, match=message):
        datasets.load("questions", tmp_path)


@pytest.mark.parametrize("keep", [0, 3, 50, 400, 1000])
def test_a_truncated_file(keep, tmp_path):
    path = written(tmp_path, "questions")
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(InputError, match=r"questions\.npz: not a whole \.npz file"):
        datasets.load("questions", tmp_path)


def test_a_file_damaged_in_the_middle(tmp_path):
    path = written(tmp_path, "questions")
    content = bytearray(path.read_bytes())
    content[200] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(InputError, match="fetch it again"):
        datasets.load("questions", tmp_path)


@pytest.mark.parametrize("form", ["pickle", "array", "page"])
def test_a_file_of_another_form(form, tmp_path):
    import pickle

    path = written(tmp_path, "questions")
    with path.open("wb") as f:
        if form == "pickle":
            pickle.dump(small_arrays(), f)
        elif form == "array":
            np.save(f, np.eye(3))
        else:
            f.write(b"<html>Sign in</html>")
    with pytest.raises(InputError, match=r"not a whole \.npz file"):
        datasets.load("questions", tmp_path)


def test_filtered_wikipedia_is_a_pyg_dataset(data_root):
    from torch_geometric.transforms import NormalizeFeatures

    dataset = datasets.FilteredWikipedia(data_root, "Chameleon_Filtered")
    assert repr(dataset) == "FilteredWikipedia(name=chameleon-filtered)"
    assert (len(dataset), dataset.num_classes, dataset.num_node_features) == (1, 5, 2325)
    assert Path(dataset.raw_paths[0]) == data_root / "chameleon_filtered/raw/chameleon_filtered.npz"
    loaded = datasets.load("chameleon-filtered", data_root)
    assert torch.equal(dataset[0].x, loaded.x)
    assert torch.equal(dataset[0].edge_index, loaded.edge_index)
    scaled = datasets.FilteredWikipedia(data_root, "chameleon-filtered", NormalizeFeatures())[0]
    assert float(scaled.x.sum(1).max()) == pytest.approx(1.0)


def test_filtered_wikipedia_reads_where_its_root_leads(data_root, tmp_path):
    """A root with .. in it behind a link: taking both out by their text leads elsewhere."""
    (tmp_path / "elsewhere" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to("elsewhere/deep")
    (tmp_path / "elsewhere" / "data").symlink_to(data_root.resolve())
    root = tmp_path / "link" / ".." / "data"
    dataset = datasets.FilteredWikipedia(root, "chameleon-filtered")
    assert Path(dataset.raw_paths[0]) == root / "chameleon_filtered/raw/chameleon_filtered.npz"
    assert dataset[0].num_nodes == 890


@pytest.mark.parametrize("name", ABSENT)
def test_a_file_that_cannot_be_verified_is_read_with_a_warning(name, tmp_path):
    path = written(tmp_path, name)
    said = rf"{path.name} is read as it is: {UNVERIFIED} to verify it by"
    with pytest.warns(UserWarning, match=said):
        assert datasets.load(name, tmp_path).num_nodes == 6


def test_filtered_wikipedia_verifies_its_file(tmp_path):
    written(tmp_path, "squirrel-filtered")
    with pytest.raises(InputError, match=r"squirrel_filtered\.npz is not the published file"):
        datasets.FilteredWikipedia(tmp_path, "squirrel-filtered")


def test_filtered_wikipedia_has_two_graphs(tmp_path):
    with pytest.raises(InputError, match="choose chameleon-filtered or squirrel-filtered"):
        datasets.FilteredWikipedia(tmp_path, "crocodile")


def test_names_may_be_spelt_as_pyg_does(tmp_path):
    written(tmp_path, "roman-empire")
    assert datasets.load("Roman_Empire", tmp_path).name == "roman-empire"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("corra", "there is no dataset 'corra'; choose one of cora, citeseer, pubmed, roman"),
        ("", "there is no dataset ''"),
        (3, "named by a string, not 3"),
        ("cora:size=3", "cora has no option 'size'; it takes none"),
    ],
)
def test_names_that_are_none(name, message):
    with pytest.raises(InputError, match=message):
        datasets.load(name)


def test_there_is_nothing_else_in_the_package():
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = datasets.nothing


def test_the_registry_cannot_be_changed():
    with pytest.raises(TypeError):
        REGISTRY["cora"] = replace(REGISTRY["cora"], nodes=0)
