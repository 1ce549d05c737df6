"""Installs a wheel into a fresh environment and serves from it: `make wheel-test`."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from deploy.readiness import find_free_port, wait_until_ready

LOCK = Path(__file__).parents[1] / "requirements" / "base.lock"


def main() -> None:
    """Runs the test on the wheel named on the command line.

    Raises:
        SystemExit: The environment cannot be made, or the service does not answer or stop.
    """
    wheel = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(prefix="wavetrim-wheel-") as folder:
        environment = install_wheel(wheel, Path(folder) / "venv")
        serve(environment, Path(folder))
    sys.stdout.write(f"{wheel.name}: installed into a fresh environment, served /healthz/ready\n")


def install_wheel(wheel: Path, environment: Path) -> Path:
    """Makes an environment with the locked dependencies and the wheel, and nothing else."""
    uv = os.environ.get("UV", "uv")
    python = str(environment / "bin" / "python")
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, environment], check=True)
    pip = [uv, "pip", "install", "--quiet", "--python", python]
    subprocess.run([*pip, "--require-hashes", "-r", LOCK], check=True)
    subprocess.run([*pip, "--no-deps", wheel], check=True)
    return environment


def serve(environment: Path, folder: Path) -> None:
    """Starts `wavetrim serve` away from the clone, waits for readiness, and stops it."""
    port = find_free_port()
    command = [
        str(environment / "bin" / "wavetrim"),
        "serve",
        *("--host", "127.0.0.1", "--port", str(port), "--data-dir", str(folder / "data")),
    ]
    clean = {k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    service = subprocess.Popen(command, cwd=folder, env=clean)
    try:
        wait_until_ready(f"http://127.0.0.1:{port}", is_running=lambda: service.poll() is None)
        service.send_signal(signal.SIGTERM)
        status = service.wait(timeout=30)
    finally:
        if service.poll() is None:
            service.kill()
            service.wait()
    if status != 0:
        sys.exit(f"wheel_test: the service ended with {status} after SIGTERM, not 0")


if __name__ == "__main__":
    main()
