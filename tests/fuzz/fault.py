"""What all fuzzers raise, and how they are started."""

import argparse
import sys


class Fault(AssertionError):
    """The service, or a part of it, has done what it may never do."""


def run_fuzzer(description, fuzz, **options):
    """Fuzz for as long as the arguments say; returns the exit status."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=1)
    for name, how in options.items():
        parser.add_argument(f"--{name}", **how)
    try:
        fuzz(**vars(parser.parse_args()))
    except Fault as fault:
        print(f"fault: {fault}", file=sys.stderr)
        return 1
    return 0
