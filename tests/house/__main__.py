"""Prints the lines of each room and the ways: `python -m tests.house`.

With `--output FILE` the ways are of this machine with its GPUs, and are written to the file.
"""

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from benchmarks.common.environment import describe_environment
from tests.house.rooms import count_rooms
from tests.house.ways import count_ways


def main():
    """Print the counts, or write them."""
    parser = argparse.ArgumentParser(description="Count lines and ways.")
    parser.add_argument("--output", type=Path, help="write the ways on this machine's GPUs here")
    output = parser.parse_args().output
    if output is None:
        for room, lines in count_rooms().items():
            print(f"{lines:7d} lines  {room}")
    ways = count_ways(devices="" if output else "none")
    for call, way in ways.items():
        print(f"{way.files:4d} files {way.functions:4d} functions  {call}")
    if output is not None:
        rows = [{"call": call, **asdict(way)} for call, way in ways.items()]
        document = {"environment": describe_environment(), "rows": rows}
        output.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
