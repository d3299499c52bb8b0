"""Which modules are not searched for examples."""

from importlib.util import find_spec

# Triton comes with PyTorch for CUDA; where it is not, its kernels cannot be imported.
_NEEDS_TRITON = ["src/pdgnn/ops/gpu.py", "src/pdgnn/ops/gpu_kernels.py"]
collect_ignore = [] if find_spec("triton") else _NEEDS_TRITON
