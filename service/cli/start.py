"""The entry point of `wavetrim`: from the very start Ctrl-C ends it with one line."""

import sys


def main() -> None:
    """Run the command line; does not return.

    Commands report themselves that they were interrupted. This is for Ctrl-C before and after a
    command runs.
    """
    try:
        from wavetrim.service.cli.main import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("wavetrim: interrupted\n")
        sys.exit(130)  # `ExitCode.INTERRUPTED`, which may not be imported yet
