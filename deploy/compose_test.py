"""Starts compose.cluster.yaml and multiplies over its two nodes: `make compose-test`.

Where no Docker engine with Compose answers, it says so and does nothing.
"""

import json
import os
import secrets
import sys
import time
import urllib.request
from collections.abc import Callable
from typing import Any

import yaml

from deploy.image_test import FOLDER
from deploy.pip_settings import write_build_secrets
from deploy.readiness import wait_until_ready
from deploy.runner import REPOSITORY, list_build_options, read, run

_FILE = REPOSITORY / "deploy" / "compose.cluster.yaml"
_COMPOSE = ("docker", "compose", "--project-name", "wavetrim-compose-test", "--file", str(_FILE))
_URL = "http://127.0.0.1:8000"
_JOIN_SECONDS = 180.0


def main() -> None:
    """Runs the test.

    Raises:
        SystemExit: Something does not hold; the message says what.
    """
    for command in (["docker", "info"], ["docker", "compose", "version"]):
        if (missing := _find_fault(command)) is not None:
            report(f"skipped: {' '.join(command)}: {missing}")
            return
    os.environ["WAVETRIM_API_KEY"] = secrets.token_urlsafe(24)
    os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    build()
    try:
        compose("up", "--detach", "--no-build")
        check_cluster()
    except BaseException:
        sys.stderr.write(run([*_COMPOSE, "logs", "--no-color"]).stdout)
        raise
    finally:
        run([*_COMPOSE, "down", "--volumes", "--timeout", "5"])


def build() -> None:
    """Builds the image that the file names, as this machine's network needs it."""
    service = yaml.safe_load(_FILE.read_text())["services"]["wavetrim"]
    FOLDER.mkdir(exist_ok=True)
    options = list_build_options(service["build"]["args"], write_build_secrets(FOLDER))
    read(["docker", "build", *options, "--tag", service["image"], "."])
    report(f"built {service['image']}")


def check_cluster() -> None:
    """Two nodes join and compute; one is removed, and another comes."""
    wait_until_ready(_URL, is_running=lambda: True, timeout_seconds=_JOIN_SECONDS)
    wait_for(lambda: len(list_nodes()) == 2, "two nodes")
    report("two nodes have joined")
    report("the main job, with two nodes:\n" + run_demo())
    first, second = list_nodes()
    scale(1)
    wait_for(lambda: len(list_nodes()) == 1, "one node less")
    report("a node has left")
    scale(2)
    wait_for(lambda: len(list_nodes()) == 2, "another node")
    if {node["id"] for node in list_nodes()} == {first["id"], second["id"]}:
        raise SystemExit("compose-test: the node that came is the one that left")
    report("another has come")
    run_demo()
    report("products are still right")


def compose(*arguments: str) -> str:
    """What `docker compose` prints; ends the test where it fails."""
    return read([*_COMPOSE, *arguments])


def run_demo() -> str:
    """Multiplies in the service's container and compares with NumPy; what the demo prints."""
    command = ("wavetrim", "demo", "--url", _URL, "--size", "4096")
    return compose("exec", "--no-TTY", "wavetrim", *command)


def scale(nodes: int) -> None:
    """Has Compose run a number of nodes, and leave all else as it is."""
    compose("up", "--detach", "--no-build", "--no-recreate", "--scale", f"node={nodes}")


def list_nodes() -> list[dict[str, Any]]:
    """The nodes that the service knows."""
    request = urllib.request.Request(
        f"{_URL}/v1/devices",
        headers={"Authorization": f"Bearer {os.environ['WAVETRIM_API_KEY']}"},
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        nodes: list[dict[str, Any]] = json.load(answer)["nodes"]
    return nodes


def wait_for(holds: Callable[[], bool], what: str) -> None:
    """Returns once something holds; ends the test where it takes too long."""
    deadline = time.monotonic() + _JOIN_SECONDS
    while not holds():
        if time.monotonic() > deadline:
            raise SystemExit(f"compose-test: {what}: not within {_JOIN_SECONDS:.0f} s")
        time.sleep(1)


def report(line: str) -> None:
    """Prints what was seen to hold."""
    sys.stdout.write(f"compose-test: {line}\n")
    sys.stdout.flush()


def _find_fault(command: list[str]) -> str | None:
    """Why a command cannot be used here; None where it can."""
    try:
        done = run(command)
    except FileNotFoundError as error:
        return str(error)
    return None if done.returncode == 0 else (done.stderr or done.stdout).strip().splitlines()[-1]


if __name__ == "__main__":
    main()
