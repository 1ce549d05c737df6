"""What deploy/ says, held against what the service and the Dockerfile say."""

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.runner import USER
from tests.environment import ROOT
from wavetrim.service.settings import Settings

DEPLOY = ROOT / "deploy"
DOCKERFILE = (ROOT / "Dockerfile").read_text()
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
DEPLOYMENT = yaml.safe_load((DEPLOY / "kubernetes" / "deployment.yaml").read_text())
SETTINGS = {f"WAVETRIM_{name.upper()}" for name in Settings.model_fields}


def read_project() -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return project


def find_pod() -> dict[str, Any]:
    pod: dict[str, Any] = DEPLOYMENT["spec"]["template"]["spec"]
    return pod


def find_container() -> dict[str, Any]:
    container: dict[str, Any]
    (container,) = find_pod()["containers"]
    return container


def read_seconds(text: str) -> float:
    return float(text.removesuffix("s"))


@pytest.mark.parametrize(
    "path",
    [ROOT / "Dockerfile", *sorted(DEPLOY.rglob("*.yaml")), *DEPLOY.glob("*.service")],
    ids=lambda path: path.name,
)
def test_every_variable_named_is_a_setting(path: Path) -> None:
    assert set(re.findall(r"WAVETRIM_[A-Z_]*[A-Z]", path.read_text())) <= SETTINGS


def test_the_image_has_the_projects_version() -> None:
    version = read_project()["version"]
    assert f"ARG VERSION={version}\n" in DOCKERFILE
    assert COMPOSE["services"]["wavetrim"]["image"] == f"wavetrim:{version}"
    kustomization = yaml.safe_load((DEPLOY / "kubernetes" / "kustomization.yaml").read_text())
    assert kustomization["images"][0]["newTag"] == version


def test_the_image_starts_the_projects_command_without_a_shell() -> None:
    (entrypoint,) = re.findall(r"^ENTRYPOINT \[(.*)\]$", DOCKERFILE, re.MULTILINE)
    assert shlex.split(entrypoint) == list(read_project()["scripts"])
    assert re.search(r"^    CMD \[.*/healthz/ready", DOCKERFILE, re.MULTILINE)


def test_the_image_runs_as_one_known_user() -> None:
    assert f"\nUSER {USER}:{USER}\n" in DOCKERFILE
    assert find_pod()["securityContext"]["runAsUser"] == USER
    assert find_pod()["securityContext"]["fsGroup"] == USER


def test_port_and_data_folder_are_the_same_everywhere() -> None:
    (port,) = re.findall(r"^EXPOSE (\d+)$", DOCKERFILE, re.MULTILINE)
    (folder,) = re.findall(r"^VOLUME (\S+)$", DOCKERFILE, re.MULTILINE)
    assert f"WAVETRIM_PORT={port}" in DOCKERFILE
    assert f"WAVETRIM_DATA_DIR={folder}" in DOCKERFILE
    assert {item["containerPort"] for item in find_container()["ports"]} == {int(port)}
    assert folder in {mount["mountPath"] for mount in find_container()["volumeMounts"]}
    for service in COMPOSE["services"].values():
        assert service["ports"] == [f"127.0.0.1:{port}:{port}"]
        assert service["volumes"] == [f"data:{folder}"]


def test_liveness_is_not_readiness() -> None:
    container = find_container()
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz/live"
    assert container["startupProbe"]["httpGet"]["path"] == "/healthz/live"
    assert container["readinessProbe"]["httpGet"]["path"] == "/healthz/ready"


def test_kubernetes_takes_one_gpu_and_nothing_else_of_the_node() -> None:
    container = find_container()
    assert container["resources"]["limits"]["nvidia.com/gpu"] == 1
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["capabilities"]["drop"] == ["ALL"]


def test_kubernetes_leaves_the_settings_alone() -> None:
    # A Service called wavetrim would set WAVETRIM_PORT=tcp://… in every pod.
    assert find_pod()["enableServiceLinks"] is False


def test_every_runner_waits_longer_than_a_drain() -> None:
    drain_seconds = Settings.model_fields["drain_seconds"].default
    unit = (DEPLOY / "wavetrim.service").read_text()
    (unit_seconds,) = re.findall(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)
    assert float(unit_seconds) > drain_seconds
    assert find_pod()["terminationGracePeriodSeconds"] > drain_seconds
    for service in COMPOSE["services"].values():
        assert read_seconds(service["stop_grace_period"]) > drain_seconds


def test_compose_reserves_the_gpu_in_its_gpu_profile_only() -> None:
    gpu, cpu = COMPOSE["services"]["wavetrim"], COMPOSE["services"]["wavetrim-cpu"]
    (device,) = gpu["deploy"]["resources"]["reservations"]["devices"]
    assert gpu["profiles"] == ["gpu"]
    assert device["capabilities"] == ["gpu"]
    assert cpu["profiles"] == ["cpu"]
    assert "deploy" not in cpu
    assert cpu["build"]["args"] == {"GPU": "0"}


def test_no_deployment_has_a_secret_or_a_registry_in_it() -> None:
    for path in [ROOT / "Dockerfile", *sorted(DEPLOY.rglob("*.*"))]:
        if path.suffix in {".yaml", ".py", ".service", ""}:
            text = path.read_text()
            assert not re.search(r"https?://(?!127\.0\.0\.1|\{)", text), path
    environment = COMPOSE["services"]["wavetrim"]["environment"]
    assert environment["WAVETRIM_API_KEY"].startswith("${WAVETRIM_API_KEY:?")
