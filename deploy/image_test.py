"""Builds the container image and runs a multiplication in it: `make image-test`.

Options: `--cpu` leaves the CUDA parts out; `--ray` includes Ray; `--keep` leaves the image.
"""

import os
import secrets
import shutil
import sys
import time
from pathlib import Path

from deploy.buildah_runner import BuildahRunner
from deploy.docker_runner import DockerRunner
from deploy.pip_settings import write_build_secrets
from deploy.readiness import find_free_port, wait_until_ready
from deploy.runner import REPOSITORY, USER, run

Runner = BuildahRunner | DockerRunner
"""A container tool. One container lives at a time."""

FOLDER = REPOSITORY / ".image"
_BUILD_TOOLS = ("cc", "gcc", "g++", "make", "git", "buildah", "nvcc")
_COPY = """
import pathlib
from wavetrim.kernels.transfer.host_library import open_copiers

pool = open_copiers(2, cache_dir=pathlib.Path("/no/such/folder"))
print(pool is not None)
if pool is not None:
    pool.close()
"""
_MULTIPLY = """
import numpy
from wavetrim.cpu.gemm import CpuPool

a = numpy.random.default_rng(1).random((1031, 517))
c = numpy.empty((1031, 1031))
with CpuPool(2) as pool:
    pool.multiply(a, a.T, c)
    print(pool.prepare(), numpy.allclose(c, a @ a.T))
"""
_WRITABLE = {"/data", "/tmp", "/var/tmp", "/run/lock"}


def main() -> None:
    """Runs the test.

    Raises:
        SystemExit: Something does not hold; the message says what.
    """
    FOLDER.mkdir(exist_ok=True)
    log = FOLDER / "service.log"
    log.unlink(missing_ok=True)
    runner = find_runner()
    try:
        build(runner, gpu="--cpu" not in sys.argv, ray="--ray" in sys.argv)
        check_configuration(runner)
        check_refusal_without_key(runner, log)
        check_service(runner, log)
    except BaseException:
        if log.exists():
            sys.stderr.write(log.read_text())
        raise
    finally:
        if "--keep" not in sys.argv:
            runner.remove()


def find_runner() -> Runner:
    """Returns Docker's runner where an engine answers, else buildah's.

    Raises:
        SystemExit: Neither can be used here.
    """
    if shutil.which("docker") and run(["docker", "info"]).returncode == 0:
        return DockerRunner()
    missing = [tool for tool in ("buildah", "debootstrap") if shutil.which(tool) is None]
    if missing:
        raise SystemExit(f"image-test: no Docker engine answers; missing: {', '.join(missing)}")
    if os.geteuid() != 0:
        raise SystemExit("image-test: no Docker engine answers, and debootstrap needs root")
    return BuildahRunner(FOLDER)


def build(runner: Runner, *, gpu: bool, ray: bool) -> None:
    """Builds the image and reports its size."""
    start = time.monotonic()
    arguments = {"GPU": str(int(gpu)), "RAY": str(int(ray))}
    runner.build(arguments, write_build_secrets(FOLDER))
    seconds, megabytes = time.monotonic() - start, runner.measure_bytes() / 1e6
    parts = ("with CUDA parts" if gpu else "CPU only") + (", with Ray" if ray else "")
    report(f"built with {runner.name} in {seconds:.0f} s: {megabytes:.0f} MB, {parts}")


def check_configuration(runner: Runner) -> None:
    """Compares the image's configuration with what an operator relies on."""
    config = runner.describe()
    expect(config["User"] == f"{USER}:{USER}", f"the image runs as {config['User']}")
    expect(config["Entrypoint"] == ["wavetrim"], f"the entry point is {config['Entrypoint']}")
    expect(config["StopSignal"] == "SIGTERM", f"the stop signal is {config['StopSignal']}")
    expect("/data" in config["Volumes"], f"the volumes are {config['Volumes']}")
    expect(config["Healthcheck"]["Test"][0] == "CMD", "the health check is in shell form")
    expect("NVIDIA_DRIVER_CAPABILITIES=compute,utility" in config["Env"], "no driver capabilities")
    report("configuration: user, entry point, volume, stop signal, health check")


def check_refusal_without_key(runner: Runner, log: Path) -> None:
    """Starts without an API key: beyond loopback the service must not serve."""
    environment = {"WAVETRIM_PORT": str(find_free_port())}
    service = runner.start(["serve"], environment, log)
    try:
        status = service.wait(timeout=60)
    finally:
        if service.poll() is None:
            runner.kill()
    expect(status != 0, "the service started beyond loopback without WAVETRIM_API_KEY")
    expect("WAVETRIM_API_KEY" in log.read_text(), "the refusal does not name WAVETRIM_API_KEY")
    log.unlink()
    report(f"without WAVETRIM_API_KEY: refused, exit status {status}")


def check_service(runner: Runner, log: Path) -> None:
    """Serves, multiplies, answers the health check and stops, without a GPU."""
    port, key = find_free_port(), secrets.token_urlsafe(24)
    environment = {"WAVETRIM_PORT": str(port), "WAVETRIM_API_KEY": key}
    if isinstance(runner, BuildahRunner):  # it has the host's network: stay on loopback
        environment["WAVETRIM_HOST"] = "127.0.0.1"
    service = runner.start(runner.describe()["Cmd"], environment, log)
    try:
        url = f"http://127.0.0.1:{port}"
        start = time.monotonic()
        wait_until_ready(url, is_running=lambda: service.poll() is None)
        report(f"ready after {time.monotonic() - start:.1f} s")
        check_inside(runner)
        if "--ray" in sys.argv:
            report("inside: " + execute(runner, "ray", "--version").strip())
        demo = execute(runner, "wavetrim", "demo", "--url", url)
        report("the main job:\n" + demo.rstrip())
        runner.terminate()
        status = service.wait(timeout=60)
    finally:
        if service.poll() is None:
            runner.kill()
    expect(status == 0, f"SIGTERM ended the service with {status}, not 0")
    report("SIGTERM: drained, exit status 0")


def check_inside(runner: Runner) -> None:
    """Looks around in the running container."""
    user = execute(runner, "id", "-u").strip()
    expect(user == str(USER), f"the user inside is {user}")
    tools = execute(runner, "sh", "-c", f"command -v {' '.join(_BUILD_TOOLS)} || true").split()
    expect(not tools, f"build tools in the image: {tools}")
    find = (
        "find / -xdev -writable ! -type l ! -path '/proc/*' ! -path '/data/*' 2>/dev/null || true"
    )
    writable = set(execute(runner, "sh", "-c", find).split())
    expect(writable <= _WRITABLE, f"writable for the user: {sorted(writable - _WRITABLE)}")
    execute(runner, *runner.describe()["Healthcheck"]["Test"][1:])
    report("inside: not root, no build tools, only /data and /tmp writable, health check passes")
    copies = execute(runner, "python3", "-c", _COPY).strip()
    expect(copies == "True", "the C library is not next to its source, or cannot be loaded")
    report("inside: threads that copy to a GPU, by the C library, compiled with the image")
    multiplied = execute(runner, "python3", "-c", _MULTIPLY).split()
    expect(multiplied[0] == "True", "the pool's C library is not there, or cannot be loaded")
    expect(multiplied[1] == "True", "the pool's C library multiplies wrongly")
    report("inside: products on the CPU by the C library, compiled with the image")


def execute(runner: Runner, *command: str) -> str:
    """Returns what a command prints in the container; ends the test where it fails."""
    result = runner.execute(command)
    expect(result.returncode == 0, f"{' '.join(command)}: {result.stdout}{result.stderr}")
    return result.stdout


def expect(holds: bool, otherwise: str) -> None:
    """Ends the test with a message where something does not hold."""
    if not holds:
        raise SystemExit(f"image-test: {otherwise}")


def report(line: str) -> None:
    """Prints what was seen to hold."""
    sys.stdout.write(f"image-test: {line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
