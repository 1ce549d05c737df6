"""Cuts KubeRay's definition of a RayCluster down to what the tests hold manifests against.

`python -m tests.deploy.cut_crd ray.io_rayclusters.yaml v1.7.0`, with that file of KubeRay's
helm-chart/kuberay-operator/crds, writes tests/deploy/data/raycluster.json. Version v1's schema is
kept. Its pod templates, most of the file, are not: they are Kubernetes' own, whose schema the tests
have from kubernetes-validate.
"""

import json
import sys
from pathlib import Path
from typing import Any

import yaml

RAYCLUSTER = Path(__file__).parent / "data" / "raycluster.json"


def cut(definition: dict[str, Any]) -> dict[str, Any]:
    """The schema of version v1, its pod templates replaced by any object."""
    (version,) = (one for one in definition["spec"]["versions"] if one["name"] == "v1")
    schema: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    spec = schema["properties"]["spec"]["properties"]
    for group in (spec["headGroupSpec"], spec["workerGroupSpecs"]["items"]):
        group["properties"]["template"] = {"type": "object"}
    del schema["properties"]["status"]
    return schema


def main() -> None:
    path, version = sys.argv[1:]
    schema = cut(yaml.safe_load(Path(path).read_text()))
    source = f"KubeRay {version} (Apache-2.0), helm-chart/kuberay-operator/crds, cut by cut_crd.py"
    RAYCLUSTER.write_text(json.dumps({"$comment": source, **schema}, indent=1) + "\n")


if __name__ == "__main__":
    main()
