"""The grids of the published systems: how large they are, what is in them, that they can be run."""

from __future__ import annotations

import pytest

from pdgnn import InputError
from pdgnn.baselines.grids import GRIDS, HOMOPHILIC, grid
from pdgnn.models import MODELS
from pdgnn.training import RunSpec
from pdgnn.training.spec import resolved

DATASETS = ("chameleon-filtered", "squirrel-filtered", "minesweeper", "tolokers", "cora")
SIZES = {
    "h2gcn": 4 * 4,
    "cpgnn": 4 * 4,
    "gpr-gnn": 4 * 4,
    "fsgnn": 5 * 5,
    "glognn": 5 * 5,
    "fagcn": 4 * 4,
    "gbk-gnn": 5 * 4,
    "jacobiconv": 4 * 4,
    "bernnet": 3 * 10 * 5,
    "linkx": 3 * 10 * 5 * 2,
    "appnp": 3 * 10 * 5 * 4,
    "dgn": 2 * 2 * 2 * 3 * 2,
    "wgcn": 3 * 10 * 5,
    "pgso-gcn": 3 * 10 * 5 * 5,
}


def values(runs, field):
    """Those of a field, or of an option by "options.name", each once."""
    name = field.removeprefix("options.")
    return sorted({run[field] if name == field else run["options"][name] for run in runs})


def test_all_fourteen_have_a_grid_of_its_published_size():
    assert {name: len(grid(name, "squirrel-filtered")) for name in GRIDS} == SIZES
    assert {name: len(grid(name, "chameleon-filtered")) for name in GRIDS} == SIZES


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("name", GRIDS)
def test_every_combination_is_another_run(name, dataset):
    runs = [RunSpec(dataset=dataset, model=name, **fields) for fields in grid(name, dataset)]
    assert len(set(runs)) == len(runs)
    assert len({resolved(run, MODELS[name]) for run in runs}) == len(runs)


def test_exceptions_of_a_dataset_take_the_place_of_the_usual():
    for name, field, usual, own in [
        ("fagcn", "options.epsilon", 0.3, 0.4),
        ("fsgnn", "dropout", 0.7, 0.5),
        ("glognn", "options.beta1", 1.0, 0.0),
        ("glognn", "dropout", 0.8, 0.0),
        ("jacobiconv", "options.a", 0.5, 0.0),
        ("jacobiconv", "options.filter_dropout", 0.1, 0.5),
    ]:
        for dataset in DATASETS[1:]:
            if name != "glognn" or dataset not in HOMOPHILIC:
                assert values(grid(name, dataset), field) == [usual]
        assert values(grid(name, "chameleon-filtered"), field) == [own]
    assert values(grid("glognn", "chameleon-filtered"), "lr")[-1] == 0.1
    assert values(grid("glognn", "chameleon-filtered"), "options.beta2") == [1.0]
    assert values(grid("jacobiconv", "chameleon-filtered"), "options.bound") == [2.0]
    assert values(grid("glognn", "citeseer"), "depth") == [3]
    assert values(grid("glognn", "citeseer"), "options.delta") == [1.0]
    assert values(grid("glognn", "citeseer"), "options.orders") == [2]
    assert values(grid("dgn", "tolokers"), "lr") == [1e-5, 1e-4]
    assert values(grid("dgn", "cora"), "lr") == [0.01, 0.05, 0.1]
    assert len(grid("dgn", "cora")) == 150 * 6


def test_fixed_settings_are_the_published_ones():
    widths = {"fagcn": 32, "gbk-gnn": 16, "jacobiconv": None}
    for name in GRIDS:
        for fields in grid(name, "squirrel-filtered"):
            assert fields.get("width") == widths.get(name, 64)
            assert fields["steps"] == (500 if name == "gbk-gnn" else 1000)
    usual = {"hops": 10, "teleport": 0.1, "prop_dropout": 0.7}
    assert grid("gpr-gnn", "squirrel-filtered")[0]["options"] == usual
    assert grid("gpr-gnn", "tolokers")[0]["options"] == {**usual, "two_scores": True}


def test_runs_of_a_grid_do_not_share_their_options():
    one, other = grid("pgso-gcn", "cora")[0], grid("pgso-gcn", "cora")[0]
    one["options"]["start"] = "changed"
    assert other["options"]["start"] == "GCN"


def test_a_system_without_a_grid_is_an_error():
    with pytest.raises(InputError, match="there is no grid for 'gcn'; choose one of h2gcn, "):
        grid("gcn", "cora")
