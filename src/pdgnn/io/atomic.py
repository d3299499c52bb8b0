"""Writing files and folders under a temporary name first, and lock files."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path

from pdgnn.errors import InputError

__all__ = ["claimed_folder", "is_locked", "open_lock", "replacing", "replacing_folder"]


@contextmanager
def replacing(path: str | PathLike[str], *, follow: bool = False) -> Iterator[Path]:
    """A temporary name to write to instead of `path`.

    Written to a temporary file, renamed to `path` on success and deleted on failure. A reader sees
    the old file or the whole new one, also when several processes write at once. Where `path` is a
    symbolic link, the file takes the place of the link; with `follow`, for files that a user has
    named, that of what the link points to.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder, "a.txt")) as partial:
    ...         _ = partial.write_text("whole")
    ...     [(file.name, file.read_text()) for file in Path(folder).iterdir()]
    [('a.txt', 'whole')]
    """
    target = Path(os.path.realpath(path) if follow else path)
    partial = target.with_name(f".pdgnn-{secrets.token_hex(6)}{target.suffix}")
    try:
        yield partial
        partial.replace(target)
    except OSError as e:
        raise InputError(f"{path}: cannot be written: {e.strerror or e}") from e
    finally:
        with suppress(OSError):  # on a disk that is read-only the error above says more
            partial.unlink(missing_ok=True)


@contextmanager
def replacing_folder(path: str | PathLike[str]) -> Iterator[Path]:
    """A temporary folder to write to instead of `path`, in the same manner.

    A folder that is there already is replaced on success, with all that is in it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing_folder(Path(folder, "model")) as partial:
    ...         _ = Path(partial, "a.txt").write_text("whole")
    ...     [file.relative_to(folder).as_posix() for file in Path(folder).rglob("*")]
    ['model', 'model/a.txt']
    """
    target = Path(path).resolve()  # "." has no name to put another beside
    partial = target.with_name(f".pdgnn-{secrets.token_hex(6)}")
    old = target.with_name(f".pdgnn-{secrets.token_hex(6)}")
    try:
        partial.mkdir()
        yield partial
        if target.exists():
            target.replace(old)
        partial.replace(target)
    except OSError as e:
        raise InputError(f"{path}: cannot be written: {e.strerror or e}") from e
    finally:
        if old.exists() and not target.exists():  # the new one could not take its place
            old.replace(target)
        for folder in (partial, old):
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def claimed_folder(path: str | PathLike[str], *, busy: str) -> Iterator[None]:
    """Hold the folder `path` for this process alone, until the block ends.

    It is made if it is missing, and goes again if nothing was put there. Where another process
    holds it, the error is `busy`. On a system or a file system without locks, nobody is kept out.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with claimed_folder(Path(folder, "model"), busy="in use"):
    ...         with claimed_folder(Path(folder, "model"), busy="in use"):
    ...             pass
    Traceback (most recent call last):
    pdgnn.errors.InputError: in use
    """
    target, descriptor = Path(path).resolve(), None
    made = not target.exists()
    try:
        target.mkdir(exist_ok=True)
        with suppress(PermissionError):  # some systems do not open folders
            descriptor = os.open(target, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    except OSError as e:
        raise InputError(f"{path}: cannot be written: {e.strerror or e}") from e
    try:
        if descriptor is not None and not _locked(descriptor):
            raise InputError(busy)
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)
        if made:
            with suppress(OSError):  # there is something in it
                target.rmdir()


@contextmanager
def open_lock(path: Path, *, busy: str) -> Iterator[None]:
    """Hold the lock file `path` for this process alone, until the block ends.

    The file is made if it is missing and keeps its contents if not. Where another process holds it,
    the error is `busy`. A symbolic link, a folder or a device in its place is an error too. On a
    system or a file system without locks, nobody is kept out.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open_lock(Path(folder, ".lock"), busy="in use"):
    ...         with open_lock(Path(folder, ".lock"), busy="in use"):
    ...             pass
    Traceback (most recent call last):
    pdgnn.errors.InputError: in use
    """
    descriptor = _opened_lock(path)
    try:
        if not _locked(descriptor):
            raise InputError(busy)
        yield
    finally:
        os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock file `path` now; a process that has ended holds none.

    On a system or a file system without locks, nobody seems to.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open_lock(Path(folder, ".lock"), busy="in use"):
    ...         held = is_locked(Path(folder, ".lock"))
    ...     held, is_locked(Path(folder, ".lock")), is_locked(Path(folder, "none"))
    (True, False, False)
    """
    if path.is_symlink() or not path.exists():
        return False
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    except OSError:
        return False
    try:
        return not _locked(descriptor, shared=True)  # several may look at once
    finally:
        os.close(descriptor)


def _opened_lock(path: Path) -> int:
    if path.is_symlink():
        raise InputError(f"{path} is a symbolic link, which a lock must not be; delete the link")
    # Where a link is put there meanwhile, O_NOFOLLOW refuses it. A pipe opened both ways never
    # waits for a writer.
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        descriptor = os.open(path, flags, 0o666)
    except OSError as e:
        raise InputError(f"cannot lock {path}: {e.strerror or e}") from e
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise InputError(f"cannot lock {path}: it is not a regular file; delete it")
    return descriptor


def _locked(descriptor: int, *, shared: bool = False) -> bool:
    """Whether nobody else has the lock, as far as the system knows locks."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True
