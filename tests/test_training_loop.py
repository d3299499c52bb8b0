"""A step that cannot be captured, by a stand-in for the GPU, is taken without."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

from pdgnn import InputError
from pdgnn.training.loop import WARM_UP, Watch, captured_step, run_steps
from runs import RUNS, group

STREAM = SimpleNamespace(wait_stream=lambda other: None)


class FailedCapture:
    """A capture that ends in an error, and raises another as it is left, as torch's does."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __enter__(self):
        try:
            raise self._error
        except Exception:
            raise RuntimeError("CUDA error: previous error during capture")  # noqa: B904

    def __exit__(self, *_):
        return False


@pytest.fixture
def failing(monkeypatch):
    """torch.cuda without a GPU, whose captures fail with this error."""

    def stand_in(error: Exception, *, plainly: bool = False) -> None:
        def graph(_):
            if plainly:
                raise error
            return FailedCapture(error)

        found = {
            "Stream": lambda device: STREAM,
            "current_stream": lambda device: STREAM,
            "stream": lambda stream: nullcontext(),
            "CUDAGraph": SimpleNamespace,
            "graph": graph,
            "synchronize": lambda device: None,
        }
        for name, value in found.items():
            monkeypatch.setattr(torch.cuda, name, value)

    return stand_in


def finished(capture: bool):
    made = group(*RUNS[:2], curves=True)
    run_steps(made, Watch(made, lambda *_: None, lambda _: None, save_seconds=9.0), capture=capture)
    return made


@pytest.mark.parametrize("plainly", [True, False])
@pytest.mark.parametrize(
    "error",
    [RuntimeError("operation not permitted when stream is capturing"), InputError("not at once")],
)
def test_a_capture_that_fails_is_told_and_the_training_ends_as_without(failing, error, plainly):
    failing(error, plainly=plainly)
    said = f"the step of gcn cannot be captured as a CUDA graph .{error}.; it trains without"
    with pytest.warns(UserWarning, match=said):
        found = finished(capture=True)
    plain = finished(capture=False)
    for name, value in plain.state.tensors().items():
        if name != "seconds":
            assert torch.equal(found.state.tensors()[name].nan_to_num(), value.nan_to_num()), name


def test_the_steps_before_the_capture_count(failing):
    failing(RuntimeError("no"))
    made = group(*RUNS[:2])
    with pytest.warns(UserWarning, match="cannot be captured"):
        assert captured_step(made) == made.train_step
    assert made.state.step.tolist() == [WARM_UP] * 2
    assert made.whole


def test_memory_that_is_full_is_no_reason_to_train_without(failing):
    failing(torch.OutOfMemoryError("full"))
    with pytest.raises(RuntimeError, match="during capture"):
        captured_step(group(*RUNS[:2]))
