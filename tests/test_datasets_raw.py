from __future__ import annotations

import hashlib
from http.client import IncompleteRead
from io import BytesIO
from pathlib import Path
from urllib.error import URLError

import pytest

from pdgnn.datasets import raw
from pdgnn.datasets.checksums import SHA256
from pdgnn.datasets.raw import RawFile, data_root, read_raw
from pdgnn.datasets.registry import REGISTRY
from pdgnn.errors import InputError

SOURCE = "https://example.org/data"
A, B = RawFile("a.npz", SOURCE), RawFile("b.npz", SOURCE)


@pytest.fixture
def web(monkeypatch):
    """Addresses and what they send (an exception is raised); and the requests made."""
    pages: dict[str, bytes | Exception] = {}
    asked: list[tuple[str, float]] = []

    def urlopen(url: str, timeout: float):
        asked.append((url, timeout))
        page = pages.get(url, URLError("no route"))
        if isinstance(page, Exception):
            raise page
        return BytesIO(page)

    monkeypatch.setattr("urllib.request.urlopen", urlopen)
    return pages, asked


@pytest.fixture
def known_a(monkeypatch):
    """The file a.npz is published, and its content is b"good"."""
    monkeypatch.setitem(SHA256, "a.npz", hashlib.sha256(b"good").hexdigest())


def files_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_root_argument_then_environment_then_home(monkeypatch, tmp_path):
    monkeypatch.setenv("PDGNN_DATA", str(tmp_path))
    assert data_root("x") == Path("x")
    assert data_root() == tmp_path
    monkeypatch.setenv("PDGNN_DATA", "")
    monkeypatch.setenv("HOME", "/home/someone")
    assert data_root() == Path("/home/someone/.cache/pdgnn")
    assert data_root("~/graphs") == Path("/home/someone/graphs")


def test_what_lies_there_is_read_without_the_web(tmp_path, web, known_a):
    (tmp_path / "a.npz").write_bytes(b"good")
    (tmp_path / "b.npz").write_bytes(b"anything")
    assert read_raw(tmp_path, [A]) == {"a.npz": b"good"}  # verified: no warning
    with pytest.warns(UserWarning, match=r"b\.npz is read as it is: no checksum of b\.npz"):
        assert read_raw(tmp_path, [A, B]) == {"a.npz": b"good", "b.npz": b"anything"}
    assert web[1] == []


def test_only_what_is_missing_is_fetched(tmp_path, web, known_a):
    folder = tmp_path / "deep" / "raw"
    folder.mkdir(parents=True)
    (folder / "b.npz").write_bytes(b"mine")
    web[0][f"{SOURCE}/a.npz"] = b"good"
    with pytest.warns(UserWarning, match=r"no checksum of b\.npz"):
        assert read_raw(folder, [A, B]) == {"a.npz": b"good", "b.npz": b"mine"}
    assert web[1] == [(f"{SOURCE}/a.npz", raw.TIMEOUT)]
    assert files_below(tmp_path) == ["deep/raw/a.npz", "deep/raw/b.npz"]


def test_a_file_with_another_checksum_is_refused(tmp_path, known_a):
    (tmp_path / "a.npz").write_bytes(b"evil")
    with pytest.raises(InputError) as caught:
        read_raw(tmp_path, [A])
    assert str(caught.value) == (
        f"{tmp_path}/a.npz is not the published file (its sha256 is not {SHA256['a.npz']}); "
        "delete it and load again, or fetch it from https://example.org/data/a.npz"
    )


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (URLError("no route"), "no route"),
        (TimeoutError("timed out"), "timed out"),
        (IncompleteRead(b"goo", 1), "IncompleteRead"),
        (b"a login page", "what https://example.org/data/a.npz sent is not the published file"),
    ],
)
def test_a_failed_fetch_says_what_to_do_and_leaves_nothing(tmp_path, web, known_a, answer, reason):
    web[0][f"{SOURCE}/a.npz"] = answer
    with pytest.raises(InputError) as caught:
        read_raw(tmp_path / "raw", [A, B])
    message = str(caught.value)
    assert reason in message
    assert message.startswith(f"{tmp_path}/raw lacks files")
    assert "a.npz, b.npz (each from https://example.org/data/...)" in message
    assert "PDGNN_DATA" in message
    assert "\n" not in message
    assert len(web[1]) == 1  # no second wait for a web that is not there
    assert list(tmp_path.iterdir()) == []


def test_a_single_missing_file_is_named_by_its_address(tmp_path, web):
    with pytest.raises(InputError, match=r"by hand https://example\.org/data/b\.npz, or"):
        read_raw(tmp_path, [B])


def test_a_write_that_fails_leaves_nothing(tmp_path, web, monkeypatch):
    def no_space(self, content):
        with self.open("wb") as f:
            f.write(content[:1])
        raise OSError("disk full")

    monkeypatch.setattr(Path, "write_bytes", no_space)
    web[0][f"{SOURCE}/b.npz"] = b"content"
    with pytest.raises(InputError, match="disk full"):
        read_raw(tmp_path, [B])
    assert files_below(tmp_path) == []


def test_a_root_that_is_a_file(tmp_path, web):
    (tmp_path / "file").write_bytes(b"")
    web[0][f"{SOURCE}/b.npz"] = b"content"
    with pytest.raises(InputError, match="could not be fetched"):
        read_raw(tmp_path / "file", [B])


def test_what_cannot_be_read(tmp_path):
    (tmp_path / "b.npz").mkdir()
    with pytest.raises(InputError, match=r"b\.npz cannot be read \(Is a directory\)"):
        read_raw(tmp_path, [B])


def test_every_pickle_has_a_checksum():
    pickles = [f for info in REGISTRY.values() for f in info.files if not f.name.endswith(".npz")]
    assert len(pickles) == 3 * 8
    assert all(len(file.sha256 or "") == 64 for file in pickles)


def test_the_checksums_are_those_of_known_files():
    files = {f.name: f for info in REGISTRY.values() for f in info.files}
    assert set(SHA256) <= set(files)
    unknown = {"roman_empire.npz", "amazon_ratings.npz", "questions.npz"}
    assert set(files) - set(SHA256) == unknown
    assert len(set(SHA256.values())) == len(SHA256) == 3 * 18 + 4
