"""What the image test needs of a container tool, and how its commands are called."""

import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

REPOSITORY = Path(__file__).parents[1]
TAG = "localhost/wavetrim:image-test"
USER = 10001

_PROXIES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")


class Runner(Protocol):
    """A container tool. One container lives at a time."""

    @property
    def name(self) -> str:
        """Name of the tool."""

    def build(self, arguments: Mapping[str, str], secrets: Mapping[str, Path]) -> None:
        """Builds the repository's Dockerfile as TAG."""

    def describe(self) -> dict[str, Any]:
        """Returns the image's configuration with Docker's names (User, Entrypoint, …)."""

    def measure_bytes(self) -> int:
        """Returns the bytes of the image's files, its base included."""

    def start(
        self, command: Sequence[str], environment: Mapping[str, str], log: Path
    ) -> subprocess.Popen[bytes]:
        """Starts the entry point with arguments; the process ends as the container does.

        Args:
            command: What follows the entry point.
            environment: Variables on top of the image's; WAVETRIM_PORT is the port to reach.
            log: Where the container's output is appended.
        """

    def execute(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Runs a command in the started container, as its user and with its environment."""

    def terminate(self) -> None:
        """Sends SIGTERM to the container's first process."""

    def kill(self) -> None:
        """Ends a container that is still there, at once."""

    def remove(self) -> None:
        """Removes what was built."""


def list_build_options(arguments: Mapping[str, str], secrets: Mapping[str, Path]) -> list[str]:
    """Returns the options that docker and buildah share, this machine's proxies included."""
    proxies = {name: os.environ[name] for name in _PROXIES if name in os.environ}
    values = {**proxies, **arguments}.items()
    return [
        *repeat_option("--build-arg", (f"{key}={value}" for key, value in values)),
        *repeat_option("--secret", (f"id={key},src={file}" for key, file in secrets.items())),
    ]


def repeat_option(option: str, values: Iterable[str]) -> list[str]:
    """Returns `option value option value …`."""
    return [part for value in values for part in (option, value)]


def run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Runs a command in the repository and keeps its output, whatever its exit status."""
    return subprocess.run(command, check=False, capture_output=True, text=True, cwd=REPOSITORY)


def read(command: Sequence[str]) -> str:
    """Returns what a command prints.

    Raises:
        SystemExit: It failed; the message has what it wrote.
    """
    result = run(command)
    if result.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: {result.stdout}{result.stderr.strip()}")
    return result.stdout.strip()
