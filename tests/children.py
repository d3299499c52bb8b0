"""Children of this process that are forked, not started anew: cheap enough to kill many of them."""

from __future__ import annotations

import os
import random
import signal
import time
import traceback
import warnings
from collections.abc import Callable

__all__ = ["Child", "Gate"]


class Gate:
    """Lets a child take so many steps and no more; the child passes it, the parent opens it."""

    def __init__(self) -> None:
        self._allowed, self._passed = os.pipe(), os.pipe()

    def open(self, steps: int) -> None:
        """Let the child pass so many times more."""
        os.write(self._allowed[1], b"." * steps)

    def pass_(self, *_: object) -> None:
        """In the child: wait until it is open, and say that it was passed."""
        os.read(self._allowed[0], 1)
        os.write(self._passed[1], b".")

    def seen(self, steps: int) -> None:
        """In the parent: wait until the child has passed so many times."""
        while steps:
            steps -= len(os.read(self._passed[0], steps))


class Child:
    """A process that does `work` and ends, with exit code 1 on an error."""

    def __init__(self, work: Callable[[], object]) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of other threads, which these children do not need
            self.pid = os.fork()
        if self.pid:
            return
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)

    def kill(self, within: float = 0.0) -> None:
        """End it by SIGKILL at some moment of the next so many seconds."""
        time.sleep(random.random() * within)
        os.kill(self.pid, signal.SIGKILL)
        assert os.waitpid(self.pid, 0)[1] == signal.SIGKILL, "it had ended before"

    def end(self) -> None:
        """Wait for its end, which must be a good one."""
        assert os.waitpid(self.pid, 0)[1] == 0, "it failed; see above"
