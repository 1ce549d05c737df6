"""The `wavetrim` command's first lines: Ctrl-C ends it with one line from the very start."""

import sys

INTERRUPTED = 130
"""`ExitCode.INTERRUPTED`, which is not imported yet."""


def main() -> None:
    """Run the command line; does not return.

    Its commands say themselves that they were interrupted. This is for Ctrl-C while they are still
    imported, or already over.
    """
    try:
        from wavetrim.service.cli.main import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("wavetrim: interrupted\n")
        sys.exit(INTERRUPTED)
