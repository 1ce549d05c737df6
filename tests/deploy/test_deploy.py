"""deploy/ agrees with the service, the project and the Dockerfile; the wheel; and the locks."""

import json
import re
import sys
import tomllib
import zipfile

import jsonschema
import pytest
import yaml
from hatchling.builders.wheel import WheelBuilder

from deploy.runner import run
from tests.environment import ROOT
from wavetrim.service.engine.supervisor import STOP_SECONDS
from wavetrim.service.jobs.lanes.engine_queue import STOP_GRACE_SECONDS
from wavetrim.service.server.foreground import LAST_ANSWERS_SECONDS
from wavetrim.service.settings import Settings

DEPLOY = ROOT / "deploy"
DOCKERFILE = (ROOT / "Dockerfile").read_text()
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
CLUSTER = yaml.safe_load((DEPLOY / "compose.cluster.yaml").read_text())
SETTINGS = {f"WAVETRIM_{name.upper()}" for name in Settings.model_fields}


def read_project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def read_dockerfile():
    """The image's port, and its data folder."""
    (port,) = re.findall(r"^EXPOSE (\d+)$", DOCKERFILE, re.MULTILINE)
    (folder,) = re.findall(r"^VOLUME (\S+)$", DOCKERFILE, re.MULTILINE)
    return port, folder


def longest_stop_seconds():
    """How long a stop may take: jobs, open connections, a product that hangs, its engine."""
    drain_seconds = Settings.model_fields["drain_seconds"].default
    hanging = 2 * STOP_GRACE_SECONDS + STOP_SECONDS
    return drain_seconds + LAST_ANSWERS_SECONDS + hanging


@pytest.mark.parametrize(
    "path",
    [ROOT / "Dockerfile", *sorted(DEPLOY.rglob("*.yaml")), *DEPLOY.glob("*.service")],
    ids=lambda path: path.name,
)
def test_every_variable_named_is_a_setting(path):
    assert set(re.findall(r"WAVETRIM_[A-Z_]*[A-Z]", path.read_text())) <= SETTINGS


def test_the_image_has_the_projects_version():
    version = read_project()["version"]
    assert f"ARG VERSION={version}\n" in DOCKERFILE
    assert COMPOSE["services"]["wavetrim"]["image"] == f"wavetrim:{version}"
    assert COMPOSE["services"]["wavetrim-cpu"]["image"] == f"wavetrim:{version}-cpu"
    for service in CLUSTER["services"].values():
        assert service["image"] == f"wavetrim:{version}-cpu-ray"


def test_port_and_data_folder_are_the_same_everywhere():
    port, folder = read_dockerfile()
    assert f"WAVETRIM_PORT={port}" in DOCKERFILE
    assert f"WAVETRIM_DATA_DIR={folder}" in DOCKERFILE
    for service in COMPOSE["services"].values():
        assert service["ports"] == [f"127.0.0.1:{port}:{port}"]
        assert service["volumes"] == [f"data:{folder}"]


@pytest.mark.needs("systemd")
def test_systemd_finds_no_fault_in_the_unit(tmp_path):
    text = (DEPLOY / "wavetrim.service").read_text()
    unit = tmp_path / "wavetrim.service"
    command = "/opt/wavetrim/bin/wavetrim"
    assert command in text
    for written, faults in (
        (text, ""),
        (text.replace("[Install]", "Nice=high\n[Install]"), "high"),
    ):
        unit.write_text(written.replace(command, sys.executable))  # it must be there
        done = run(["systemd-analyze", "verify", "--man=no", str(unit)])
        told = [line for line in done.stderr.splitlines() if unit.name in line]
        assert bool(told) == bool(faults)
        assert faults in "".join(told)


def test_nginx_waits_longer_than_a_product_may_take():
    (hours,) = re.findall(r"proxy_read_timeout (\d+)h;", (DEPLOY / "nginx.conf").read_text())
    assert 3600 * int(hours) > Settings.model_fields["job_timeout_seconds"].default


def test_every_runner_waits_longer_than_a_stop():
    stop_seconds = longest_stop_seconds()
    unit = (DEPLOY / "wavetrim.service").read_text()
    (unit_seconds,) = re.findall(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)
    assert float(unit_seconds) > stop_seconds
    for service in [*COMPOSE["services"].values(), CLUSTER["services"]["wavetrim"]]:
        assert float(service["stop_grace_period"].removesuffix("s")) > stop_seconds


def test_no_deployment_contains_a_secret_or_a_registry():
    for path in [ROOT / "Dockerfile", *sorted(DEPLOY.rglob("*.*"))]:
        if path.suffix in {".yaml", ".py", ".service", ""}:
            text = path.read_text()
            assert not re.search(r"https?://(?!127\.0\.0\.1|\{)", text), path
    for service in [*COMPOSE["services"].values(), *CLUSTER["services"].values()]:
        for name in {"WAVETRIM_API_KEY", "RAY_AUTH_TOKEN"} & service["environment"].keys():
            assert service["environment"][name].startswith(f"${{{name}:?")


@pytest.mark.parametrize("path", sorted(DEPLOY.glob("compose*.yaml")), ids=lambda path: path.name)
def test_compose_files_follow_their_specification(path):
    schema = json.loads((ROOT / "tests" / "deploy" / "data" / "compose-spec.json").read_text())
    jsonschema.Draft7Validator(schema).validate(yaml.safe_load(path.read_text()))


def test_all_compose_services_are_equally_restricted():
    locks = ("read_only", "cap_drop", "security_opt")
    for service in [*COMPOSE["services"].values(), *CLUSTER["services"].values()]:
        assert [service[lock] for lock in locks] == [True, ["ALL"], ["no-new-privileges:true"]]


FOLDERS = ("service", "lab", "scheduler", "kernels", "cpu", "native")
LOCKS = sorted((ROOT / "requirements").glob("*.lock"))


@pytest.fixture(scope="module")
def wheel_names(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.mark.parametrize("pattern", ["*.py", "*.cu", "*.cuh", "*.c", "*.h"])
def test_the_wheel_has_every_source(wheel_names, pattern):
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob(pattern)]
    assert files
    assert {f"wavetrim/{path.relative_to(ROOT)}" for path in files} <= wheel_names


def test_the_wheel_has_one_package_and_nothing_else(wheel_names):
    outside = {name.split("/")[0] for name in wheel_names if ".dist-info/" not in name}
    assert outside == {"wavetrim"}
    assert not [name for name in wheel_names if "__pycache__" in name]
    assert [name for name in wheel_names if name.endswith("licenses/LICENSE")]
    assert "wavetrim/py.typed" in wheel_names


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_locks_pin_and_hash_everything_and_name_no_index(lock):
    text = lock.read_text()
    requirements = re.findall(r"^[a-z0-9].*(?:\n {4}--hash=.*)+", text, re.MULTILINE)
    assert len(requirements) == len(re.findall(r"^[a-z0-9]", text, re.MULTILINE))
    assert all(re.match(r"[a-z0-9._-]+(\[.*\])?==\S+", line) for line in requirements)
    assert "://" not in text
    assert "--index-url" not in text


def test_locks_hold_every_dependency_of_the_project():
    project = read_project()
    extras = project["optional-dependencies"]
    wanted = {
        "base": [*project["dependencies"], *extras["postgres"], *extras["jwt"]],
        "gpu": [*project["dependencies"], *extras["postgres"], *extras["jwt"], *extras["gpu"]],
        "ray": [*project["dependencies"], *extras["ray"]],
    }
    for lock, requirements in wanted.items():
        text = (ROOT / "requirements" / f"{lock}.lock").read_text()
        locked = set(re.findall(r"^([a-z0-9._-]+)", text, re.MULTILINE))
        assert {re.split(r"[^A-Za-z0-9._-]", name)[0] for name in requirements} <= locked


@pytest.mark.parametrize("lock", ["base", "gpu"])
def test_an_image_with_ray_has_the_versions_of_one_without(lock):
    pins, with_ray = (
        set(re.findall(r"^([a-z0-9._-]+)==(\S+)", path.read_text(), re.MULTILINE))
        for path in (ROOT / "requirements" / f"{name}.lock" for name in (lock, "ray"))
    )
    shared = {name for name, _ in pins} & {name for name, _ in with_ray}
    assert shared
    assert {pin for pin in with_ray if pin[0] in shared} == {
        pin for pin in pins if pin[0] in shared
    }
