"""Which modules are not searched for examples."""

from importlib.util import find_spec

# Triton comes with PyTorch for CUDA; where it is not, its kernels cannot be imported.
collect_ignore_glob = [] if find_spec("triton") else ["src/pdgnn/ops/gpu*.py"]
