"""Files that are whole or not there at all, and a lock that keeps other processes out."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pdgnn.errors import InputError

__all__ = ["open_lock", "replacing"]


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary name in the folder of `path`, to write to.

    Written to a temporary file, renamed to `path` on success and deleted on failure. A reader sees
    the old file or the whole new one, also when several processes write at once.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder, "a.txt")) as partial:
    ...         _ = partial.write_text("whole")
    ...     [(file.name, file.read_text()) for file in Path(folder).iterdir()]
    [('a.txt', 'whole')]
    """
    partial = path.with_name(f".pdgnn-{secrets.token_hex(6)}{path.suffix}")
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


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


def _locked(descriptor: int) -> bool:
    """Whether nobody else has the lock, as far as the system knows locks."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True
