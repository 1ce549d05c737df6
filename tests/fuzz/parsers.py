"""A coverage-guided fuzzer of all that reads bytes: atheris, one target after the other.

    python -m tests.fuzz.parsers [--seconds 600] [--seed 1] [--target npy]

It begins with what is in `tests/fuzz/corpus/`, whose files the tests read, too. An input that
breaks a target is printed, in base64 as well; put into the corpus, it is a test. Inputs that reach
what none has reached before are in the folder `--found`, if one is named.
"""

import re
import subprocess
import sys
from base64 import b64encode
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.fuzz.fault import Fault, run_fuzzer

_TARGETS = ("npy", "body", "head", "fields", "json", "message")
"""The names of `tests.fuzz.targets`, which is imported only where its modules are watched."""

_MOST_BYTES = 600
"""Of an input."""

_CORPUS = Path(__file__).with_name("corpus")

_INSTRUMENTED = ("uvicorn.protocols.http", "wavetrim.service", "wavetrim.scheduler")
"""Where reached edges are counted."""

_FIGURES = re.compile(r"INITED|DONE|number_of_executed|slowest|peak_rss")
"""What is shown of a run without faults: inputs tried, edges reached (cov), and what that took."""

_SHOWN_LINES = 80
"""What is shown of one with a fault, from its end."""


def fuzz(seconds, seed, target, found, inside):
    """Fuzz targets, each in a process of its own, or one in this process, which ends with it.

    Raises:
        Fault: A target was broken.
    """
    if inside:
        _fuzz_here(target, seconds, seed, Path(inside))
    names = [target] if target else _TARGETS
    broken = [name for name in names if not _run(name, seconds / len(names), seed, found)]
    if broken:
        raise Fault(", ".join(broken))
    print("no faults", flush=True)


def _fuzz_here(target, seconds, seed, folder):
    import atheris

    with atheris.instrument_imports(include=[*_INSTRUMENTED]):
        from tests.fuzz.targets import TARGETS

    arguments = [
        sys.argv[0], str(folder), str(_CORPUS / target), f"-dict={_CORPUS}/words.dict",
        f"-max_total_time={seconds:.0f}", f"-seed={seed}", "-timeout=15", "-rss_limit_mb=1500",
        f"-max_len={_MOST_BYTES}", "-print_final_stats=1", f"-artifact_prefix={folder.parent}/",
    ]  # fmt: skip
    atheris.Setup(arguments, TARGETS[target])
    atheris.Fuzz()


def _run(name, seconds, seed, found):
    """Fuzz one target, and show how that went; False when it was broken."""
    print(f"=== {name}, seed {seed}, {seconds:.0f} s", flush=True)
    with TemporaryDirectory(prefix="wavetrim-fuzz-") as root:
        folder = Path(found or root, name)
        folder.mkdir(parents=True, exist_ok=True)
        command = [
            sys.executable, "-m", "tests.fuzz.parsers", "--inside", str(folder), "--target", name,
            "--seconds", str(seconds), "--seed", str(seed),
        ]  # fmt: skip
        ended = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
        )
        lines = ended.stdout.decode(errors="replace").splitlines()
        if ended.returncode == 0:
            print("\n".join(line for line in lines if _FIGURES.search(line)), flush=True)
            return True
        print("\n".join(lines[-_SHOWN_LINES:]), flush=True)
        for broke in folder.parent.glob("*-*"):
            print(f"{broke.name}: {b64encode(broke.read_bytes()).decode()}", flush=True)
    return False


def main():
    return run_fuzzer(
        __doc__,
        fuzz,
        target={"choices": _TARGETS, "help": "only this one"},
        found={"help": "a folder for inputs that reach more"},
        inside={"help": "the folder of one target that this process fuzzes itself"},
    )


if __name__ == "__main__":
    sys.exit(main())
