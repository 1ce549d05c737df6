"""Measures the service against its peers and its floor, in turns, and writes the results.

Run `make bench-http ARGS="..."`, or `python -m benchmarks.http`. Rows are written as soon as they
are measured. It exits with 1 if an answer was wrong, or the service failed.
"""

import argparse
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from benchmarks.common.environment import describe_environment, name_host
from benchmarks.common.results import Record
from benchmarks.common.shapes import DTYPES, read_shape
from benchmarks.http.baselines.baseline import Setup
from benchmarks.http.baselines.lineup import make_baselines
from benchmarks.http.baselines.service import Service
from benchmarks.http.cases import CLIENTS, SIZE_ON_FEW_CORES, SIZES
from benchmarks.http.clients.product import WrongAnswer
from benchmarks.http.judged import judge, render_judgements
from benchmarks.http.rows import read_http_file
from benchmarks.http.run import PARTS, Run
from benchmarks.http.transfers import SIZE as TRANSFER_SIZE

SECONDS: Final = 540.0
SECONDS_ON_FEW_CORES: Final = 390.0
"""Time of all turns, with and without a GPU; calibration and starts come on top."""

_SERVERS: Final = ("fastapi", "starlette", "uvicorn", "uvloop", "httptools")


def main() -> int:
    """Measure, and write the results."""
    arguments = read_arguments()
    environment = describe_environment()
    environment["versions"] |= list_versions(arguments.pytriton_python)
    with_gpu = environment["hardware"]["gpu"] is not None
    arguments.seconds = arguments.seconds or (SECONDS if with_gpu else SECONDS_ON_FEW_CORES)
    host = name_host(environment) if with_gpu else "cpu"
    out: Path = arguments.out / f"http-{host}.json"
    record = Record(out, environment, absent="absent")
    try:
        with (
            TemporaryDirectory(prefix="wavetrim-", dir=arguments.folder) as name,
            ExitStack() as stack,
        ):
            setup = Setup(Path(name), arguments.profile, arguments.pytriton_python)
            Run(setup, arguments, record, stack).measure()
        print(render_judgements(judge(read_http_file(out))))
    except (WrongAnswer, OSError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 1 if record.failed else 0


def list_versions(pytriton: str) -> dict[str, str]:
    """Versions of the servers in this interpreter, and of PyTriton in its own."""
    code = "import importlib.metadata as m; print(m.version('nvidia-pytriton'))"
    asked = subprocess.run([pytriton, "-c", code], capture_output=True, text=True, check=False)
    found = {"nvidia-pytriton": asked.stdout.strip()} if asked.returncode == 0 else {}
    return {name: version(name) for name in _SERVERS} | found


def read_arguments() -> argparse.Namespace:
    """The arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    nowhere = Setup(Path())
    names = list(make_baselines(nowhere, Service(nowhere)))
    add = parser.add_argument
    add("--seconds", type=float, help=f"what all turns together may take; default: {SECONDS:g},"
        f" {SECONDS_ON_FEW_CORES:g} without a GPU")  # fmt: skip
    add("--parts", type=read_list(str, list(PARTS)), metavar="NAME,...", help="of"
        f" {', '.join(PARTS)}; default: all, or products where some are picked")  # fmt: skip
    add("--sizes", type=read_list(int), metavar="N,...", help=f"default: {SIZES}; without a GPU"
        f" up to {SIZE_ON_FEW_CORES}")  # fmt: skip
    add("--dtypes", type=read_list(str, DTYPES), metavar="NAME,...", help=f"of {', '.join(DTYPES)}")
    add("--clients", type=read_list(int), metavar="N,...", help=f"default: {CLIENTS}")
    add("--baselines", type=read_list(str, names), default=names, metavar="NAME,...",
        help=f"of {', '.join(names)}")  # fmt: skip
    add("--transfer-size", type=int, default=TRANSFER_SIZE, metavar="N",
        help="rows and columns of the matrix that is uploaded and downloaded")  # fmt: skip
    add("--job-sizes", type=read_list(int), metavar="N,...")
    add("--split-shapes", type=read_list(read_shape), metavar="MxNxK,...")
    add("--memory", type=float, metavar="GIB",
        help="free memory, where the system says less than there is")  # fmt: skip
    add("--profile", type=Path, help="a profile, or a results file that has one")
    add("--pytriton-python", default=sys.executable, help="an interpreter that has PyTriton")
    add("--folder", type=Path, help="where servers keep their files; default: as TMPDIR says")
    add("--out", type=Path, default=Path("benchmarks/results"), help="folder of results")
    arguments = parser.parse_args()
    picked = arguments.sizes or arguments.dtypes or arguments.clients
    arguments.parts = arguments.parts or (["products"] if picked else list(PARTS))
    arguments.dtypes = arguments.dtypes or list(DTYPES)
    arguments.clients = arguments.clients or list(CLIENTS)
    return arguments


def read_list(read: Callable[[str], Any], known: Sequence[Any] = ()) -> Callable[[str], list[Any]]:
    """A reader of values with commas between them."""

    def parse(text: str) -> list[Any]:
        values = [read(part) for part in text.split(",")]
        if known and (strange := set(values) - set(known)):
            raise argparse.ArgumentTypeError(f"{sorted(strange)}: not of {', '.join(known)}")
        return values

    return parse


if __name__ == "__main__":
    sys.exit(main())
