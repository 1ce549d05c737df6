"""Measures the service beside its peers and its floor, in turns, and writes what was found.

Run `make bench-http ARGS="..."`, or `python -m benchmarks.http`. Rows are written as soon as they
are measured; with --keep a run goes on where an earlier one ended. It ends with 1 where an answer
was wrong.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from benchmarks.environment import describe_environment, name_host
from benchmarks.http.cases import (
    CLIENTS,
    SIZE_ON_FEW_CORES,
    SIZES,
    count_variants,
    find_free_memory,
    list_cases,
    share_seconds,
)
from benchmarks.http.contenders import EXECUTOR, FLOOR, Contender, Setup, make_contenders
from benchmarks.http.contest import measure_case
from benchmarks.http.product import DTYPES, Product, WrongAnswer
from benchmarks.http.record import HEADER, Record
from benchmarks.http.rows import Case
from benchmarks.http.server_process import ServerAbsent
from benchmarks.measured import ResultsError

SECONDS: Final = 540.0
DEFAULT_KEEP: Final = Path()


def main() -> int:
    """Measure, and write the results."""
    arguments = read_arguments()
    environment = describe_environment()
    host = name_host(environment) if environment["hardware"]["gpu"] else "cpu"
    out: Path = arguments.out or Path(f"benchmarks/results/http-{host}.json")
    record = Record(out, environment)
    try:
        if arguments.keep is not None:
            record.keep(out if arguments.keep == DEFAULT_KEEP else arguments.keep)
        with TemporaryDirectory(prefix="wavetrim-", dir=arguments.folder) as name, ExitStack() as s:
            setup = Setup(Path(name), arguments.profile, arguments.pytriton_python)
            contenders = start_contenders(setup, arguments.contenders, record, s.callback)
            until = time.perf_counter() + arguments.seconds
            with_gpu = environment["hardware"]["gpu"] is not None
            measure_products(contenders, choose_cases(arguments, with_gpu), record, until)
    except (ResultsError, WrongAnswer, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def start_contenders(
    setup: Setup, names: Sequence[str], record: Record, at_end: Callable[..., object]
) -> list[Contender]:
    """Start those that run here; the others are noted with their reasons.

    Args:
        setup: What they know.
        names: Which ones; a floor brings the executor along.
        record: Is told of those that are absent.
        at_end: Told what is to be called when all is measured.
    """
    known = make_contenders(setup)
    wanted = [name for name in known if name in names or (name == EXECUTOR and FLOOR in names)]
    started = []
    for name in wanted:
        at_end(known[name].stop)
        try:
            known[name].start()
        except ServerAbsent as error:
            record.leave_out(name, str(error))
        else:
            started.append(known[name])
    return started


def choose_cases(arguments: argparse.Namespace, with_gpu: bool) -> list[Case]:
    """The products that were asked for."""
    usual = [size for size in SIZES if with_gpu or size <= SIZE_ON_FEW_CORES]
    sizes = arguments.sizes or usual
    return list_cases(sizes, arguments.dtypes, arguments.clients, find_free_memory())


def measure_products(
    contenders: Sequence[Contender], cases: Sequence[Case], record: Record, until: float
) -> None:
    """Measure case after case; those that time does not reach are noted.

    Raises:
        WrongAnswer: A contender's answer is not its product.
    """
    print(HEADER, flush=True)
    todo = [
        case for case in cases if not {x.name for x in contenders} <= record.find_measured(case)
    ]
    for place, case in enumerate(todo):
        left = until - time.perf_counter()
        if left <= 0:
            record.leave_out(str(case), "time ran out")
            continue
        assert isinstance(case.size, int), "products are square"
        variants = count_variants(case.size, case.dtype)
        products = [Product.draw(case.size, case.dtype, seed) for seed in range(variants)]
        seconds = share_seconds(left, todo[place:])
        there = [one for one in contenders if one.abstain(case) is None]
        rows, failures = measure_case(case, there, products, seconds)
        for name, why in failures.items():
            record.leave_out(f"{name} at {case}", why)
        record.add(rows)


def read_arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    names = list(make_contenders(Setup(Path())))
    add = parser.add_argument
    add("--seconds", type=float, default=SECONDS, help="what all turns together may take")
    add("--sizes", type=read_list(int), metavar="N,...", help=f"default: {SIZES}; without a GPU"
        f" up to {SIZE_ON_FEW_CORES}")  # fmt: skip
    add("--dtypes", type=read_list(str, DTYPES), default=list(DTYPES), metavar="NAME,...")
    add("--clients", type=read_list(int), default=list(CLIENTS), metavar="N,...")
    add("--contenders", type=read_list(str, names), default=names, metavar="NAME,...",
        help=f"of {', '.join(names)}")  # fmt: skip
    add("--profile", type=Path, help="a profile, or a results file that has one")
    add("--pytriton-python", default=sys.executable, help="an interpreter that has PyTriton")
    add("--folder", type=Path, help="where servers keep their files; default: as TMPDIR says")
    add("--keep", type=Path, nargs="?", const=DEFAULT_KEEP, metavar="FILE",
        help="begin with what earlier runs wrote to the results file, or to this one")  # fmt: skip
    add("--out", type=Path)
    return parser.parse_args()


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
