"""wavetrim against NumPy, CuPy and PyTorch, from host memory into host memory, and sweeps of F.

Three parts, each with its own file, which is written again after every step:

- `contest`, into results/busy-<host>.json: ten products, and some that are drawn at random with the
  date as seed, take turns, from pageable and from page-locked memory, in each condition of the
  machine. Three runs, each in new processes. wavetrim has the settings of a fresh machine without a
  calibration, unless WAVETRIM_DATA_DIR names a folder. If a peer is missing, nothing is measured.
- `sweep`, into results/host-<gpu>-sweeps.json: the time at the model's F over that at the best F
  (regret), on a machine that is calibrated first. It needs a GPU.
- `sweep-pinned`, into results/host-<gpu>-pinned-sweeps.json: the same for products that both
  devices share, from page-locked memory, on a quiet machine and right after NumPy.

Run `make bench-host`, with `CONDITION=quiet|after-numpy|busy|half` for a contest in one condition,
or `python -m benchmarks.host [--parts contest sweep] [--seconds 560]`. The seconds are those of
each part; what did not fit is listed in its file. On several GPUs (`make bench-host GPUS=2`)
wavetrim, CuPy on all of them and NumPy take turns.
"""

import argparse
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from benchmarks.common.shapes import read_shape
from benchmarks.host.conditions import CONDITIONS
from benchmarks.host.contest import run_contest
from benchmarks.host.sweep import run_sweeps
from wavetrim.kernels.device import list_devices

PARTS: Final = ("contest", "sweep", "sweep-pinned")
SECONDS: Final = 560.0
ROUNDS: Final = 9
RUNS: Final = 3


def main() -> int:
    """Measure, and write the results; 1 if a product was wrong or nothing could be measured."""
    arguments = read_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    wrong: list[str] = []
    try:
        if "contest" in arguments.parts:
            wrong += run_contest(arguments)
        if "sweep" in arguments.parts:
            run_sweeps(arguments, "pageable")
        if "sweep-pinned" in arguments.parts:
            run_sweeps(arguments, "pinned")
    except (subprocess.CalledProcessError, OSError) as error:
        print(f"nothing is compared: {error}", file=sys.stderr)
        return 1
    for one in wrong:
        print(f"wrong product: {one}", file=sys.stderr)
    return 1 if wrong else 0


def read_arguments() -> argparse.Namespace:
    """The arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--parts", nargs="+", choices=PARTS, help="default: the contest, and the"
        " sweeps where one GPU is used")  # fmt: skip
    add("--conditions", nargs="+", choices=CONDITIONS, default=CONDITIONS, help="default: all")
    add("--seconds", type=float, default=SECONDS, help="what each part may take")
    gpus = range(1, 1 + max(1, len(list_devices())))
    add("--gpus", type=int, choices=gpus, default=1, help="how many GPUs are used, if any")
    add("--runs", type=int, default=RUNS, help="of the contest")
    add("--rounds", type=int, default=ROUNDS, help="in each run and condition, if there is time")
    today = datetime.now(UTC).date().isoformat()
    add("--seed", default=today, help="of the random products; default: the date")
    add("--shapes", type=read_shape, nargs="+", metavar="MxNxK", help="in place of all products")
    add("--out", type=Path, default=Path("benchmarks/results"), help="folder of results")
    arguments = parser.parse_args()
    with_sweep = arguments.gpus == 1 and list_devices()
    arguments.parts = arguments.parts or (list(PARTS) if with_sweep else ["contest"])
    return arguments


if __name__ == "__main__":
    sys.exit(main())
