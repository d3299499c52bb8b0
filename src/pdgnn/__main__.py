"""The command ``pdgnn``, which is ``python -m pdgnn`` too, from its first moment on."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line; Ctrl-C while it is imported ends as Ctrl-C later does."""
    try:
        from pdgnn.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("stopped\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
