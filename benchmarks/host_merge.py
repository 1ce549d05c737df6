"""Two results files of the host benchmark as one, whose rows may be of several commits.

Contests and sweeps that the later run measured replace the earlier run's whole; all others stay,
each row with the commit that it was measured at. Commit, time, profile and link are those of the
later run. `make bench-host ARGS=--keep` does so with the file that is there already.

Run `python -m benchmarks.host_merge EARLIER LATER [--out FILE]`; without `--out`, EARLIER is
written anew.
"""

import argparse
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.host_gaps import drop_superseded, list_gaps
from benchmarks.host_rows import HostResults, replace_rows
from benchmarks.measured import ResultsError


def main() -> int:
    """Merges two files."""
    arguments = read_arguments()
    try:
        earlier, later = (HostResults.read(x) for x in (arguments.earlier, arguments.later))
        merge_results(earlier, later).write(arguments.out or arguments.earlier)
    except (ResultsError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def merge_results(earlier: HostResults, later: HostResults) -> HostResults:
    """What both runs found.

    Raises:
        ResultsError: They ran on other hardware, beside other versions, or in the other order.
    """
    check_environments(earlier.document, later.document)
    versions = {**earlier.document["versions"], **later.document["versions"]}
    merged = replace(
        later,
        rows=replace_rows(earlier.rows, later.rows),
        regret=replace_rows(earlier.regret, later.regret),
    )
    left_out = drop_superseded(earlier.document.get("left_out", ()), later)
    left_out += later.document.get("left_out", ())
    found = {"versions": versions, "left_out": list_gaps(left_out, merged)}
    return replace(merged, document={**later.document, **found})


def check_environments(earlier: Mapping[str, Any], later: Mapping[str, Any]) -> None:
    """Compare what the caption of all rows says, and the order.

    Args:
        earlier: What stands above the rows of one run.
        later: The same of the other.

    Raises:
        ResultsError: They ran on other hardware, beside other versions, or in the other order.
    """
    for name in ("hardware", "versions"):
        before, now = earlier[name], later[name]
        for what in before:
            if what in now and before[what] != now[what]:
                raise ResultsError(f"{name}: {what} was {before[what]} and is {now[what]}")
    before, now = (x.get("measured_at", "") for x in (earlier, later))
    if before > now:
        raise ResultsError(f"the earlier run is of {before}, the later one of {now}")


def read_arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("earlier", type=Path, help="a results file")
    parser.add_argument("later", type=Path, help="one that was measured after it")
    parser.add_argument("--out", type=Path, help="what is written; without it, EARLIER")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
