"""The script for compute-sanitizer launches every kernel that there is."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

import every_kernel
from pdgnn.ops import use_backend


@pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed")
def test_every_kernel_is_launched(monkeypatch, capsys):
    from pdgnn.ops import gpu, gpu_dense

    seen, written = set(), set()

    def named(kernel, *_args, **_options):  # to interpret them all takes minutes
        seen.add(kernel.fn.__name__)

    for module in (gpu, gpu_dense):
        monkeypatch.setattr(module, "launch", named)
        written |= set(re.findall(r"launch\(\s*\w+\.(\w+),", Path(module.__file__).read_text()))
    with use_backend("gpu"):
        every_kernel.main("cpu")
    assert seen == written
    assert {"attend_backward", "adamw"} < written
    assert capsys.readouterr().out == "every kernel ran\n"
