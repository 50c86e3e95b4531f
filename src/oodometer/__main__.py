"""Command line interface for `python -m oodometer`."""

from oodometer.cli import main

if __name__ == "__main__":
    main()
