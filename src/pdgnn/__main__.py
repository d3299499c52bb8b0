"""``python -m pdgnn`` is the command ``pdgnn``."""

from pdgnn.cli import main

if __name__ == "__main__":
    main()
