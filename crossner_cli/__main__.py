"""The entry point of ``crossner`` and of ``python -m crossner_cli``."""

import sys


def main() -> None:
    """Run a command; Ctrl-C while it is loaded ends it silently."""
    try:
        from crossner_cli.cli import main as run_command

        run_command()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
