"""Files that are whole or not there, and locks that spare what a link points to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pdgnn import InputError
from pdgnn.io.atomic import open_lock, replacing

pytest.importorskip("fcntl")


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_replaced_whole(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with replacing(path) as partial:
        partial.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert names_in(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("error", [OSError(28, "full"), KeyboardInterrupt(), SystemExit(3)])
def test_a_failure_leaves_the_old_file_alone(tmp_path, error):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def write() -> None:
        with replacing(path) as partial:
            partial.write_text("ne")
            raise error

    with pytest.raises(type(error)):
        write()
    assert path.read_text() == "old"
    assert names_in(tmp_path) == ["a.txt"]


def test_a_lock_keeps_its_file_and_is_free_again_after(tmp_path):
    path = tmp_path / ".lock"
    path.write_text("kept")
    for _ in range(2):
        with open_lock(path, busy="in use"):
            assert path.read_text() == "kept"
            with pytest.raises(InputError, match=r"^in use$"), open_lock(path, busy="in use"):
                pass
    with pytest.raises(OSError, match="mine"), open_lock(path, busy="in use"):
        raise OSError("mine")  # what the block raises is not the lock's to change


TRY = """
import sys
from pathlib import Path
from pdgnn.errors import InputError
from pdgnn.io.atomic import open_lock
try:
    with open_lock(Path(sys.argv[1]), busy="in use"):
        print("taken")
except InputError as e:
    print(e)
"""


def test_a_lock_keeps_another_process_out(tmp_path):
    def attempt() -> str:
        words = [sys.executable, "-c", TRY, str(tmp_path / ".lock")]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()

    with open_lock(tmp_path / ".lock", busy="in use"):
        assert attempt() == "in use"
    assert attempt() == "taken"


def test_a_link_in_place_of_a_lock_is_refused_and_its_file_kept(tmp_path, monkeypatch):
    (tmp_path / "notes").write_text("precious")
    for target in ("notes", "gone"):
        link = tmp_path / f"to-{target}"
        link.symlink_to(target)
        with (
            pytest.raises(InputError, match=f"to-{target} is a symbolic link"),
            open_lock(link, busy="in use"),
        ):
            pass
        with monkeypatch.context() as patched:  # a link that is put there at the last moment
            patched.setattr(Path, "is_symlink", lambda _: False)
            with (
                pytest.raises(InputError, match=f"cannot lock .*to-{target}"),
                open_lock(link, busy="in use"),
            ):
                pass
    assert (tmp_path / "notes").read_text() == "precious"
    assert names_in(tmp_path) == ["notes", "to-gone", "to-notes"]


def test_what_is_no_file_cannot_be_a_lock(tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name, message in (
        ("folder", "cannot lock .*folder: Is a directory"),
        ("pipe", "cannot lock .*pipe: it is not a regular file"),
        ("gone/.lock", "cannot lock .*: No such file"),
    ):
        with pytest.raises(InputError, match=message), open_lock(tmp_path / name, busy="in use"):
            pass
