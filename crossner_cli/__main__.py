"""``python -m crossner_cli``: the same as ``crossner``."""

from crossner_cli.cli import main

if __name__ == "__main__":
    main()
