"""deploy/kubernetes, rendered by kustomize, follows the schemas and agrees with the service."""

import json
import re
import shutil
import subprocess
from functools import cache

import jsonschema
import kubernetes_validate
import pytest
import yaml

from deploy.runner import USER, run
from tests.command import expect_refused
from tests.deploy.cut_crd import RAYCLUSTER
from tests.deploy.test_deploy import longest_stop_seconds, read_dockerfile, read_project
from tests.environment import ROOT
from wavetrim.service.settings import Settings

pytestmark = pytest.mark.needs("kustomize")

FOLDER = ROOT / "deploy" / "kubernetes"
OVERLAYS = sorted(path.name for path in (FOLDER / "overlays").iterdir())
VERSIONS = ("1.30", "1.37")
"""Versions of Kubernetes whose schemas are checked: an old one, and the newest known."""

PAGE = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")

LEAST_KUBECTL = 21
"""The kustomize of kubectl 1.21 is the first that knows the fields of the overlays."""


def list_blocks(title, mark=""):
    """The shell blocks that stand below a heading and have this mark."""
    section = re.split(rf"^#+ {title}\n", PAGE, flags=re.MULTILINE)[1]
    section = re.split(r"^#+ [A-Z]", section, flags=re.MULTILINE)[0]
    blocks = re.findall(r"^```sh ?(\w*)\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    found = [text for its_mark, text in blocks if its_mark == mark]
    assert found, f"{title} has no block `sh {mark}`"
    return found


def find_renderer():
    """The command that renders a folder; the test is skipped where it is too old."""
    if shutil.which("kustomize"):
        return ["kustomize", "build"]
    line = ["kubectl", "version", "--client", "--output", "json"]
    version = json.loads(run(line).stdout)["clientVersion"]
    if int(version["minor"].rstrip("+")) < LEAST_KUBECTL:
        pytest.skip(f"kubectl is {version['gitVersion']}, older than 1.{LEAST_KUBECTL}")
    return ["kubectl", "kustomize"]


@cache
def render(overlay):
    return render_folder(FOLDER / "overlays" / overlay)


def render_folder(folder):
    """The objects of a folder with a `kustomization.yaml`."""
    done = run([*find_renderer(), str(folder)])
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


@pytest.fixture
def write_site(tmp_path):
    """Writes the page's own folder for an overlay, by its commands; returns its objects."""

    def write(overlay):
        shutil.copytree(FOLDER, tmp_path / "deploy" / "kubernetes")
        for block in (*list_blocks("Kubernetes"), *list_blocks("Ingress")):
            commands = block.replace("overlays/gpu", f"overlays/{overlay}")
            subprocess.run(["bash", "-euc", commands], cwd=tmp_path, check=True)
        return render_folder(tmp_path / "site")

    return write


def find(overlay, kind):
    (found,) = (one for one in render(overlay) if one["kind"] == kind)
    return found


def list_groups(one):
    """What has a pod's template: the object, or each group of a RayCluster."""
    spec = one["spec"]
    return [spec["headGroupSpec"], *spec["workerGroupSpecs"]] if "headGroupSpec" in spec else [spec]


def list_pods(overlay):
    """Each pod with each of its containers."""
    for one in render(overlay):
        if one["kind"] in ("Deployment", "RayCluster"):
            for group in list_groups(one):
                pod = group["template"]["spec"]
                yield from ((pod, container) for container in pod["containers"])


def find_service(overlay):
    (found,) = (one for one in list_pods(overlay) if one[1]["name"] == "wavetrim")
    return found


def close(schema):
    """A schema that allows only the fields that it names, as kubectl does."""
    if isinstance(schema, list):
        return [close(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: close(one) for name, one in schema.items()}
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        closed.setdefault("additionalProperties", False)
    return closed


def validate(one, version):
    """Validate an object by the schema of its kind."""
    if one["kind"] != "RayCluster":
        kubernetes_validate.validate(one, version, strict=True)
        return
    schema = close(json.loads(RAYCLUSTER.read_text()))
    schema["properties"]["metadata"] = {"type": "object"}
    jsonschema.Draft202012Validator(schema).validate(one)
    for group in list_groups(one):
        template = {"apiVersion": "v1", "kind": "PodTemplate", "template": group["template"]}
        kubernetes_validate.validate(template, version, strict=True)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_each_overlay_follows_the_schemas_of_kubernetes(overlay, version):
    for one in render(overlay):
        validate(one, version)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_a_folder_of_ones_own_follows_the_schemas_and_names_the_image(overlay, write_site):
    objects = write_site(overlay)
    for one in objects:
        for version in VERSIONS:
            validate(one, version)
    text = yaml.safe_dump_all(objects)
    assert set(re.findall(r"image: (.+)", text)) == {
        f"registry.example/wavetrim:{read_project()['version']}"
    }
    if overlay != "ray":
        assert "- name: WAVETRIM_METRICS\n" in text


def test_the_ingress_leads_to_the_service_and_waits_for_its_products(write_site):
    objects = {one["kind"]: one for one in write_site("cpu")}
    ((path,),) = (rule["http"]["paths"] for rule in objects["Ingress"]["spec"]["rules"])
    service = objects["Service"]
    assert path["backend"]["service"]["name"] == service["metadata"]["name"]
    ports = [port["name"] for port in service["spec"]["ports"]]
    assert [path["backend"]["service"]["port"]["name"]] == ports
    limits = {
        name.rpartition("/")[2]: value
        for name, value in objects["Ingress"]["metadata"]["annotations"].items()
    }
    read_timeout = int(limits.pop("proxy-read-timeout"))
    assert read_timeout > Settings.model_fields["job_timeout_seconds"].default
    assert limits == {
        "proxy-body-size": "0",
        "proxy-request-buffering": "off",
        "proxy-buffering": "off",
        "proxy-next-upstream": "off",
    }


def test_the_page_names_objects_that_exist():
    names = {(one["kind"].lower(), one["metadata"]["name"]) for one in render("gpu")}
    names |= {(one["kind"].lower(), one["metadata"]["name"]) for one in render("ray")}
    commands = "".join((*list_blocks("Kubernetes", "cluster"),
                        *list_blocks("Nodes on Kubernetes", "cluster")))  # fmt: skip
    kinds = "deployment|service|raycluster"
    named = set(re.findall(rf"\b({kinds})[/ ](\w+)", commands))
    assert {kind for kind, _ in named} == set(kinds.split("|"))
    assert named <= names
    (port,) = re.findall(r"service/wavetrim 8000:(\d+)", commands)
    assert find("gpu", "Service")["spec"]["ports"][0]["port"] == int(port)
    keys = set(re.findall(r"--from-literal=([\w-]+)", commands))
    asked = set(re.findall(r"key: ([\w-]+)", yaml.safe_dump_all(render("ray"))))
    assert keys == {"api-key", "ray-token"} <= asked


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_pods_have_no_privileges(overlay):
    for pod, container in list_pods(overlay):
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] == USER
        assert pod["securityContext"]["fsGroup"] == USER
        assert pod["automountServiceAccountToken"] is False
        rights = container["securityContext"]
        assert rights["readOnlyRootFilesystem"] is True
        assert rights["allowPrivilegeEscalation"] is False
        assert rights["capabilities"]["drop"] == ["ALL"]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_secrets_come_from_kubernetes_secrets(overlay):
    for _, container in list_pods(overlay):
        for variable in container["env"]:
            if variable["name"].endswith(("_KEY", "_TOKEN")):
                assert variable["valueFrom"]["secretKeyRef"]["name"] == "wavetrim"
    assert "WAVETRIM_API_KEY" in {one["name"] for one in find_service(overlay)[1]["env"]}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_port_folder_and_image_are_those_of_the_dockerfile(overlay):
    port, folder = read_dockerfile()
    pod, container = find_service(overlay)
    assert [one["containerPort"] for one in container["ports"]] == [int(port)]
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert volumes[mounts[folder]]["persistentVolumeClaim"]["claimName"] == "wavetrim"
    suffix = {"cpu": "-cpu", "ray": "-ray"}.get(overlay, "")
    images = {one["image"] for _, one in list_pods(overlay)}
    assert images == {f"wavetrim:{read_project()['version']}{suffix}"}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_a_stop_ends_before_its_pod(overlay):
    grace_seconds = find_service(overlay)[0]["terminationGracePeriodSeconds"]
    assert grace_seconds > longest_stop_seconds()


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_one_service_owns_the_data_folder(overlay):
    if overlay == "ray":
        assert find(overlay, "RayCluster")["spec"]["upgradeStrategy"]["type"] == "Recreate"
    else:
        assert find(overlay, "Deployment")["spec"]["strategy"]["type"] == "Recreate"
        assert find(overlay, "Deployment")["spec"]["replicas"] == 1


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_only_the_services_port_is_open_to_all(overlay):
    policies = [one["spec"] for one in render(overlay) if one["kind"] == "NetworkPolicy"]
    everybody = [rule for one in policies for rule in one["ingress"] if "from" not in rule]
    assert everybody == [{"ports": [{"port": "http"}]}]
    assert all(one["podSelector"]["matchLabels"] for one in policies)
    assert all(one["policyTypes"] == ["Ingress"] for one in policies)


def test_the_command_accepts_the_arguments_of_the_pods(tmp_path):
    lines = {tuple(one["args"]) for _, one in list_pods("ray") if "args" in one}
    assert len(lines) == 2
    for line in lines:
        here = [one.replace("$(POD_IP)", "127.0.0.1") for one in line]
        # It looks for the token after it has parsed its arguments.
        expect_refused(*here, folder=tmp_path, says="RAY_AUTH_TOKEN", HOME=str(tmp_path))
