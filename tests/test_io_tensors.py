"""Files of tensors: rights as usual, and a full disk is an error of one line."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch
from safetensors import safe_open

from pdgnn import InputError
from pdgnn.io.atomic import replacing, replacing_folder
from pdgnn.io.tensors import save_tensors

resource = pytest.importorskip("resource")
LARGE = {"a": torch.zeros(10_000)}


@pytest.fixture
def full():
    """No file may grow beyond 4 KiB, as if the disk were full then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("umask", [0o022, 0o027])
def test_rights_are_the_usual_ones_and_what_was_written_comes_back(tmp_path, umask):
    before = os.umask(umask)
    try:
        save_tensors(tmp_path / "a", {"a": torch.arange(6).view(2, 3).T, "b": torch.tensor(2.0)})
        (tmp_path / "plain").touch()
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "plain").stat().st_mode
    with safe_open(str(tmp_path / "a"), framework="np") as stored:
        np.testing.assert_array_equal(stored.get_tensor("a"), [[0, 3], [1, 4], [2, 5]])
        assert stored.get_tensor("b").shape == ()


@pytest.mark.usefixtures("full")
def test_a_full_disk_is_said_of_the_file_or_the_folder_that_was_asked_for(tmp_path):
    with (
        pytest.raises(InputError, match=r"a\.st: cannot be written: .*File too large"),
        replacing(tmp_path / "a.st") as partial,
    ):
        save_tensors(partial, LARGE)
    with (
        pytest.raises(InputError, match=r"model: cannot be written: .*File too large"),
        replacing_folder(tmp_path / "model") as folder,
    ):
        save_tensors(folder / "a.st", LARGE)
    assert list(tmp_path.iterdir()) == []
