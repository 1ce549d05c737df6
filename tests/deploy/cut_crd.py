"""Cuts KubeRay's definition of a RayCluster down to the schema that tests need.

`python -m tests.deploy.cut_crd ray.io_rayclusters.yaml v1.7.0`, with that file of KubeRay's
helm-chart/kuberay-operator/crds, writes tests/deploy/data/raycluster.json: the schema of version v1
without its pod templates. Those are Kubernetes' own, and the tests validate them by its schema.
"""

import json
import sys
from pathlib import Path

import yaml

RAYCLUSTER = Path(__file__).parent / "data" / "raycluster.json"


def cut(definition):
    """The schema of version v1, in which a pod template may be any object."""
    (version,) = (one for one in definition["spec"]["versions"] if one["name"] == "v1")
    schema = version["schema"]["openAPIV3Schema"]
    spec = schema["properties"]["spec"]["properties"]
    for group in (spec["headGroupSpec"], spec["workerGroupSpecs"]["items"]):
        group["properties"]["template"] = {"type": "object"}
    del schema["properties"]["status"]
    return schema


def main():
    path, version = sys.argv[1:]
    schema = cut(yaml.safe_load(Path(path).read_text()))
    source = f"KubeRay {version} (Apache-2.0), helm-chart/kuberay-operator/crds, cut by cut_crd.py"
    RAYCLUSTER.write_text(json.dumps({"$comment": source, **schema}, indent=1) + "\n")


if __name__ == "__main__":
    main()
