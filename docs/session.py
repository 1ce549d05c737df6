"""The README's console sessions: run, and written to the page or compared with it.

A session is a block fenced as ```console. Lines that begin with `$ ` are commands, a backslash
continues a line, and what follows is their output. All commands of a page run in one shell, in an
empty folder that has the clone's environment as `.venv`, with a service of their own.

`make readme` runs the README's sessions and writes what they print.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.http.servers import Server

README = Path(__file__).resolve().parent.parent / "README.md"
ADDRESS = "127.0.0.1:8000"
_BLOCK = re.compile(r"(?<=^```console\n).*?(?=^```$)", re.DOTALL | re.MULTILINE)
_END = "--- end of command"


@dataclass(frozen=True, slots=True)
class Exchange:
    """A command and what it printed, without the last line break."""

    command: str
    output: str


def main() -> None:
    """Rewrites the README with what its commands print now."""
    text = README.read_text(encoding="utf-8")
    exchanges = iter(run_commands([e.command for e in find_exchanges(text)]))

    def render(block: re.Match[str]) -> str:
        count = len(list(_split_block(block[0])))
        return "".join(_render(next(exchanges)) for _ in range(count))

    README.write_text(_BLOCK.sub(render, text), encoding="utf-8")


def find_exchanges(text: str) -> list[Exchange]:
    """All exchanges of a page, in order."""
    return [exchange for block in _BLOCK.findall(text) for exchange in _split_block(block)]


def run_commands(commands: Sequence[str]) -> list[Exchange]:
    """Runs commands in one shell, with a service; its address is printed as ADDRESS.

    Raises:
        SystemExit: The service does not become ready, or a command fails.
    """
    with tempfile.TemporaryDirectory(prefix="wavetrim-session-") as name, serve(name) as address:
        (Path(name) / ".venv").symlink_to(sys.prefix)
        script = "".join(f"{command}\nprintf '\\n{_END} %d\\n' $?\n" for command in commands)
        shell = subprocess.run(
            ["bash", "-c", f"exec 2>&1\n{script.replace(ADDRESS, address)}"],
            cwd=name,
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
        )
        printed = shell.stdout.replace(address, ADDRESS).replace("\r", "")
    *pieces, rest = re.split(rf"^{_END} (\d+)\n", printed, flags=re.MULTILINE)
    outputs, statuses = pieces[::2], pieces[1::2]
    for command, output, status in zip(commands, outputs, statuses, strict=False):
        if status != "0":
            raise SystemExit(f"{command}: exit status {status}\n{output}")
    if len(outputs) < len(commands):
        raise SystemExit(f"{commands[len(outputs)]}: the shell ended\n{rest}")
    return [Exchange(c, o.strip("\n")) for c, o in zip(commands, outputs, strict=True)]


@contextmanager
def serve(folder: str, **settings: str) -> Iterator[str]:
    """A service on a free port with its data in a folder; gives its address."""
    variables = {name: "" for name in os.environ if name.startswith("WAVETRIM_")}
    variables |= {f"WAVETRIM_{name.upper()}": value for name, value in settings.items()}
    service = Server(
        *("service", Path(folder), "wavetrim", "serve", "--data-dir", f"{folder}/wavetrim-data"),
        ready_path="/healthz/ready",
        environment=variables,
    )
    try:
        yield "{}:{}".format(*service.address)
    finally:
        service.stop()


def _split_block(block: str) -> Iterator[Exchange]:
    command: list[str] = []
    output: list[str] = []
    for line in block.splitlines():
        continues = bool(command) and not output and command[-1].endswith("\\")
        if line.startswith("$ ") and not continues:
            if command:
                yield Exchange("\n".join(command), "\n".join(output))
            command, output = [line[2:]], []
        elif continues:
            command.append(line)
        else:
            output.append(line)
    if command:
        yield Exchange("\n".join(command), "\n".join(output))


def _render(exchange: Exchange) -> str:
    output = f"{exchange.output}\n" if exchange.output else ""
    return f"$ {exchange.command}\n{output}"


if __name__ == "__main__":
    main()
