"""A coverage-guided fuzzer of all that reads bytes: atheris, one target after the other.

    python -m tests.fuzz.parsers [--seconds 600] [--seed 1] [--target npy] [--keep]

It begins with what is in `tests/fuzz/corpus/`, whose files the tests read, too. An input that
breaks a target is printed, in base64 as well; put into the corpus, it is a test. `--keep` adds the
inputs that reach what none has reached before.
"""

import argparse
import re
import shutil
import subprocess
import sys
from base64 import b64encode
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory


@dataclass(frozen=True, slots=True)
class Share:
    """How a target is fuzzed: its part of the time, beside the others', and its longest input."""

    weight: int
    most_bytes: int


_SHARES = {
    "npy": Share(weight=2, most_bytes=400),
    "body": Share(weight=1, most_bytes=600),
    "head": Share(weight=2, most_bytes=600),
    "fields": Share(weight=2, most_bytes=300),
    "json": Share(weight=2, most_bytes=200),
    "message": Share(weight=1, most_bytes=600),
}
"""By the names of `tests.fuzz.targets`, which is imported only where its modules are watched."""

_CORPUS = Path(__file__).with_name("corpus")

_INSTRUMENTED = (
    "uvicorn.protocols.http",
    "wavetrim.scheduler.engine.messages",
    "wavetrim.scheduler.options",
    "wavetrim.service.api.checks",
    "wavetrim.service.api.products.matmul",
    "wavetrim.service.api.matrices.download",
    "wavetrim.service.api.fields",
    "wavetrim.service.api.problems",
    "wavetrim.service.api.schemas",
    "wavetrim.service.api.v2",
    "wavetrim.service.api.wire",
    "wavetrim.service.option_fields",
    "wavetrim.service.cursor",
    "wavetrim.service.jobs.table.rows",
    "wavetrim.service.jobs.operands",
    "wavetrim.service.storage.matrices.npy",
)
"""Where reached edges are counted."""

_FIGURES = re.compile(r"INITED|DONE|number_of_executed|slowest|peak_rss")
"""What is shown of a run without faults: inputs tried, edges reached (cov), and what that took."""

_SHOWN_LINES = 80
"""What is shown of one with a fault, from its end."""


def fuzz(target, seconds, seed, folder):
    """Fuzz one target in this process, which ends with it; finds are left in a folder."""
    import atheris

    with atheris.instrument_imports(include=list(_INSTRUMENTED)):
        from tests.fuzz.targets import TARGETS

    arguments = [
        sys.argv[0], str(folder), str(_CORPUS / target), f"-dict={_CORPUS}/words.dict",
        f"-max_total_time={seconds:.0f}", f"-seed={seed}", "-timeout=15", "-rss_limit_mb=1500",
        f"-max_len={_SHARES[target].most_bytes}", "-print_final_stats=1",
        f"-artifact_prefix={folder.parent}/",
    ]  # fmt: skip
    atheris.Setup(arguments, TARGETS[target])
    atheris.Fuzz()


def run_all(seconds, seed, names, *, keep):
    """Fuzz targets, each in a process of its own; returns the exit status."""
    total = sum(_SHARES[name].weight for name in names)
    failed = [
        name
        for name in names
        if not _run(name, seconds * _SHARES[name].weight / total, seed, keep=keep)
    ]
    print(f"fault: {', '.join(failed)}" if failed else "no faults", flush=True)
    return 1 if failed else 0


def _run(name, seconds, seed, *, keep):
    """Fuzz one target, and show how that went; False when it was broken."""
    print(f"=== {name}, seed {seed}, {seconds:.0f} s", flush=True)
    with TemporaryDirectory(prefix="wavetrim-fuzz-") as root:
        found = Path(root, "found")
        found.mkdir()
        command = [
            sys.executable, "-m", "tests.fuzz.parsers", "--inside", str(found), "--target", name,
            "--seconds", str(seconds), "--seed", str(seed),
        ]  # fmt: skip
        ended = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
        )
        lines = ended.stdout.decode(errors="replace").splitlines()
        if ended.returncode:
            print("\n".join(lines[-_SHOWN_LINES:]), flush=True)
            for broke in Path(root).glob("*-*"):
                print(f"{broke.name}: {b64encode(broke.read_bytes()).decode()}", flush=True)
            return False
        print("\n".join(line for line in lines if _FIGURES.search(line)), flush=True)
        if keep:
            shutil.copytree(found, _CORPUS / name, dirs_exist_ok=True)
    return True


def main():
    """Fuzz for as long as the arguments say; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--target", choices=_SHARES, help="only this one")
    parser.add_argument("--keep", action="store_true", help="add what is found to the corpus")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside is not None:
        fuzz(arguments.target, arguments.seconds, arguments.seed, arguments.inside)
    names = [arguments.target] if arguments.target else list(_SHARES)
    return run_all(arguments.seconds, arguments.seed, names, keep=arguments.keep)


if __name__ == "__main__":
    sys.exit(main())
