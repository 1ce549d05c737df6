"""The image test's container in a Docker engine."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.runner import TAG, list_build_options, read, repeat_option, run

_LOCKED = (
    *("--read-only", "--tmpfs", "/tmp"),
    *("--cap-drop", "ALL", "--security-opt", "no-new-privileges"),
)


@dataclass(frozen=True, slots=True)
class DockerRunner:
    """Runs with everything locked: read-only root, no capabilities, /tmp in memory."""

    name: str = "docker"
    container: str = "wavetrim-image-test"

    def build(self, arguments: Mapping[str, str], secrets: Mapping[str, Path]) -> None:
        """Builds with BuildKit, from the Dockerfile's own base image."""
        read(["docker", "build", *list_build_options(arguments, secrets), "--tag", TAG, "."])

    def describe(self) -> dict[str, Any]:
        """Returns `.Config` of docker inspect."""
        config: dict[str, Any] = json.loads(read(["docker", "inspect", TAG]))[0]["Config"]
        return config

    def measure_bytes(self) -> int:
        """Returns `.Size` of docker inspect."""
        return int(json.loads(read(["docker", "inspect", TAG]))[0]["Size"])

    def start(
        self, command: Sequence[str], environment: Mapping[str, str], log: Path
    ) -> subprocess.Popen[bytes]:
        """Publishes the port, WAVETRIM_PORT, on loopback; /data is an anonymous volume."""
        port = environment["WAVETRIM_PORT"]
        variables = repeat_option("--env", (f"{k}={v}" for k, v in environment.items()))
        options = [*_LOCKED, "--publish", f"127.0.0.1:{port}:{port}", *variables]
        line = ["docker", "run", "--rm", "--name", self.container, *options, TAG, *command]
        with log.open("ab") as output:
            return subprocess.Popen(line, stdout=output, stderr=output)

    def execute(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Runs through docker exec."""
        return run(["docker", "exec", self.container, *command])

    def terminate(self) -> None:
        """Signals through the engine."""
        read(["docker", "kill", "--signal", "TERM", self.container])

    def kill(self) -> None:
        """Removes the container."""
        run(["docker", "rm", "--force", "--volumes", self.container])

    def remove(self) -> None:
        """Leaves the image: a later build reuses its layers."""
