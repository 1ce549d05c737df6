"""How the commands of container tools are called."""

import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
TAG = "localhost/wavetrim:image-test"
USER = 10001

_PROXIES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")


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
