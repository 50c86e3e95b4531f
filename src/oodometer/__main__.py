"""`python -m oodometer` is the command line."""

from oodometer.cli import main

if __name__ == "__main__":
    main()
