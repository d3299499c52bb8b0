"""Files that are whole or not there, and locks that spare what a link points to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pdgnn import InputError
from pdgnn.io.atomic import claimed_folder, open_lock, replacing, replacing_folder

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


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(28, "full"), r"a\.txt: cannot be written: full"),
        (KeyboardInterrupt("me"), "me"),
        (SystemExit(3), "3"),
    ],
)
def test_a_failure_leaves_the_old_file_alone(tmp_path, error, said):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def write() -> None:
        with replacing(path) as partial:
            partial.write_text("ne")
            raise error

    with pytest.raises(InputError if isinstance(error, OSError) else type(error), match=said):
        write()
    assert path.read_text() == "old"
    assert names_in(tmp_path) == ["a.txt"]


def test_a_disk_that_is_read_only_is_named_by_the_file_asked_for(tmp_path, monkeypatch):
    def refuse(self, missing_ok=False):
        raise OSError(30, "Read-only file system", str(self))

    monkeypatch.setattr(Path, "unlink", refuse)
    with (
        pytest.raises(InputError, match=r"a\.txt: cannot be written: Read-only file system$"),
        replacing(tmp_path / "a.txt"),
    ):
        raise OSError(30, "Read-only file system")


@pytest.mark.parametrize("target", ["real.txt", "folder/gone.txt"])
def test_a_link_is_replaced_or_followed_but_what_it_points_to_is_never_half_written(
    tmp_path, target
):
    (tmp_path / "folder").mkdir()
    (tmp_path / "real.txt").write_text("old")
    link = tmp_path / "link.txt"
    link.symlink_to(target)
    with replacing(link, follow=True) as partial:
        assert partial.parent == (tmp_path / target).parent  # the rename stays on one disk
        partial.write_text("followed")
    assert link.is_symlink()
    assert (tmp_path / target).read_text() == "followed"
    with replacing(link) as partial:
        partial.write_text("replaced")
    assert not link.is_symlink()
    assert link.read_text() == "replaced"
    assert (tmp_path / target).read_text() == "followed"
    assert names_in(tmp_path) == ["folder", "link.txt", "real.txt"]


def test_a_link_to_itself_becomes_the_file(tmp_path):
    (tmp_path / "a").symlink_to("a")
    with replacing(tmp_path / "a", follow=True) as partial:
        partial.write_text("x")
    assert (tmp_path / "a").read_text() == "x"
    assert names_in(tmp_path) == ["a"]


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


def test_a_folder_is_replaced_whole(tmp_path):
    target = tmp_path / "model"
    for text in ("old", "new"):
        with replacing_folder(target) as partial:
            (partial / f"{text}.txt").write_text(text)
        assert names_in(target) == [f"{text}.txt"]
        assert names_in(tmp_path) == ["model"]


@pytest.mark.parametrize("error", [OSError(28, "full"), KeyboardInterrupt(), SystemExit(3)])
@pytest.mark.parametrize("there", [True, False])
def test_a_failure_leaves_the_old_folder_alone(tmp_path, error, there):
    target = tmp_path / "model"
    if there:
        target.mkdir()
        (target / "old.txt").write_text("old")

    def write_half() -> None:
        with replacing_folder(target) as partial:
            (partial / "new.txt").write_text("half")
            raise error

    with pytest.raises((InputError, type(error))):
        write_half()
    assert names_in(tmp_path) == (["model"] if there else [])
    assert not there or names_in(target) == ["old.txt"]


def test_a_folder_that_cannot_take_its_place_leaves_the_old_one(tmp_path, monkeypatch):
    target = tmp_path / "model"
    target.mkdir()
    (target / "old.txt").write_text("old")
    real = Path.replace

    def failing(self, new):
        if (self / "new.txt").exists():
            raise OSError(28, "full")
        return real(self, new)

    monkeypatch.setattr(Path, "replace", failing)
    raised = pytest.raises(InputError, match="cannot be written: full")
    with raised, replacing_folder(target) as partial:
        (partial / "new.txt").write_text("new")
    assert names_in(target) == ["old.txt"]
    assert names_in(tmp_path) == ["model"]


def test_a_claimed_folder_is_replaced_and_free_afterwards(tmp_path):
    target = tmp_path / "model"
    for text in ("old", "new"):
        with claimed_folder(target, busy="in use"):
            assert target.is_dir()
            with (
                pytest.raises(InputError, match=r"^in use$"),
                claimed_folder(target, busy="in use"),
            ):
                pass
            with replacing_folder(target) as partial:
                (partial / "a.txt").write_text(text)
        assert names_in(tmp_path) == ["model"]
        assert (target / "a.txt").read_text() == text


def test_a_folder_that_was_claimed_for_nothing_goes(tmp_path):
    (tmp_path / "there").mkdir()
    for name in ("there", "new"):
        with pytest.raises(KeyError), claimed_folder(tmp_path / name, busy="in use"):
            raise KeyError
    assert names_in(tmp_path) == ["there"]
    (tmp_path / "file").touch()
    with (
        pytest.raises(InputError, match=r"file: cannot be written: File exists"),
        claimed_folder(tmp_path / "file", busy="in use"),
    ):
        pass
