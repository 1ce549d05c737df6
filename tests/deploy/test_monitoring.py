"""The dashboard's queries and the alerts, in a real Prometheus that watches a service."""

import contextlib
import json
import re
import shutil
import subprocess
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import yaml

from tests.processes import running, wait_until
from tests.server import ROOT, RunningServer, find_free_port
from tests.service.api.wire.wire_server import exchange
from wavetrim.service.settings import Settings

pytestmark = pytest.mark.needs("prometheus")

FOLDER = ROOT / "deploy" / "prometheus"
DASHBOARD = json.loads((ROOT / "deploy" / "grafana" / "wavetrim.json").read_text())
ALERTS = yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"][0]["rules"]
DESCRIPTIONS = {rule["alert"]: rule["annotations"]["description"] for rule in ALERTS}
CASES = Path(__file__).parent / "data" / "alerts_test.yaml"
WITHOUT_GPU = "wavetrim_gpu_"
"""Prefix of metrics that exist with a GPU only."""

VARIABLES = {"$__rate_interval": "30s", "$instance": ".*"}


@dataclass(frozen=True)
class Prometheus:
    """A started Prometheus, by its address."""

    url: str

    def ask(self, path, **fields):
        """The data in an answer of its API."""
        address = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(fields)}"
        with urllib.request.urlopen(address, timeout=30) as answer:
            document = json.load(answer)
        assert document["status"] == "success", document
        return document["data"]

    def query(self, expression):
        return self.ask("query", query=expression)["result"]


@contextlib.contextmanager
def run_prometheus(folder, target):
    """Run Prometheus until the block ends, as in deploy/ but faster, for one target."""
    configuration = yaml.safe_load((FOLDER / "prometheus.yaml").read_text())
    configuration["global"] = {
        "scrape_interval": "250ms", "evaluation_interval": "250ms",
    }  # fmt: skip
    (scrape,) = configuration["scrape_configs"]
    scrape["static_configs"] = [{"targets": [target]}]
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(configuration))
    shutil.copy(FOLDER / "alerts.yaml", folder)
    address = f"127.0.0.1:{find_free_port()}"
    command = [
        "prometheus", f"--config.file={folder}/prometheus.yaml",
        f"--storage.tsdb.path={folder}/data", f"--web.listen-address={address}",
    ]  # fmt: skip
    started = Prometheus(f"http://{address}")
    with running(command, folder / "output.log", lambda: started.query("up == 1")):
        yield started


def list_queries():
    """The dashboard's queries, by panel and letter."""
    return {
        f"{panel['title']} {target['refId']}": target["expr"]
        for panel in DASHBOARD["panels"]
        for target in panel.get("targets", ())
    }


def use(server):
    """Use the service so that all of the dashboard has data."""
    large = np.ones((600, 600))  # products that take no time correct no prediction
    for _ in range(3):
        assert server.multiply(large, large).status_code == 200
    assert server.client.get("/v1/jobs/none").status_code == 404
    server.run_job(np.ones((9, 9)), np.ones((9, 9)))
    assert exchange(server, b"no request\r\n\r\n")[0] == 400


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    with RunningServer(tmp_path_factory.mktemp("watched") / "data") as server:
        use(server)
        yield server


@pytest.fixture(scope="module")
def prometheus(watched, tmp_path_factory):
    folder = tmp_path_factory.mktemp("prometheus")
    with run_prometheus(folder, f"127.0.0.1:{watched.port}") as started:
        use(watched)
        # Corrections appear a little later, when the engine has told of its runs.
        scrapes = (
            "wavetrim_correction_factor and on (job, instance)"
            " (count_over_time(wavetrim_build_info[1m]) > 3)"
        )
        wait_until(lambda: bool(started.query(scrapes)))
        yield started


def fill_in(expression):
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    assert "$" not in expression
    return expression


def test_every_query_of_the_dashboard_finds_something(prometheus):
    queries = {name: fill_in(expression) for name, expression in list_queries().items()}
    assert len(queries) > 30
    found = {name for name, expression in queries.items() if prometheus.query(expression)}
    needs_gpu = {name for name, expression in queries.items() if WITHOUT_GPU in expression}
    assert queries.keys() - found == needs_gpu


def test_every_metric_of_dashboard_and_alerts_exists(watched):
    families = re.findall(r"^# TYPE (\w+) (\w+)", watched.client.get("/metrics").text, re.MULTILINE)
    known = {
        f"{name}{suffix}"
        for name, kind in families
        for suffix in (("_bucket", "_count", "_sum") if kind == "histogram" else ("",))
    }
    asked = [*list_queries().values(), *(rule["expr"] for rule in ALERTS)]
    named = set(re.findall(r"\b(?:wavetrim|process)_\w+", " ".join(asked)))
    assert len(named) > 30
    assert named - known == set()


def test_a_healthy_service_raises_no_alert(prometheus):
    (group,) = prometheus.ask("rules")["groups"]
    assert {rule["name"] for rule in group["rules"]} == {rule["alert"] for rule in ALERTS}
    wait_until(
        lambda: all(r["health"] == "ok" for r in prometheus.ask("rules")["groups"][0]["rules"])
    )
    alerts = {alert["labels"]["alertname"] for alert in prometheus.ask("alerts")["alerts"]}
    assert alerts <= {"WavetrimDiskFills"}  # other programs may fill this disk


def promtool(*arguments):
    ended = subprocess.run(
        ["promtool", *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout
    return ended.stdout


def test_promtool_finds_no_fault_in_rules_and_configuration():
    told = promtool("check", "config", "--lint-fatal", FOLDER / "prometheus.yaml")
    told += promtool("check", "rules", "--lint-fatal", FOLDER / "alerts.yaml")
    assert not re.search("fail|warn|error|duplicate", told, re.IGNORECASE)


def test_each_alert_is_raised_by_its_own_cause_only(tmp_path):
    cases = yaml.safe_load(CASES.read_text())
    raised = {
        test["alertname"]
        for case in cases["tests"]
        for test in case["alert_rule_test"]
        if test["exp_alerts"]
    }
    assert raised == {rule["alert"] for rule in ALERTS}
    cases["rule_files"] = [str(FOLDER / "alerts.yaml")]
    for case in cases["tests"]:
        for test in case["alert_rule_test"]:
            for alert in test["exp_alerts"]:
                alert["exp_annotations"]["description"] = DESCRIPTIONS[test["alertname"]]
        # Every other alert is silent, unless the case says otherwise.
        told = {test["alertname"] for test in case["alert_rule_test"]}
        at = case["alert_rule_test"][0]["eval_time"]
        for rule in ALERTS:
            if rule["alert"] not in told:
                silent = {"eval_time": at, "alertname": rule["alert"], "exp_alerts": []}
                case["alert_rule_test"].append(silent)
    filled = tmp_path / "alerts_test.yaml"
    filled.write_text(yaml.safe_dump(cases))
    promtool("test", "rules", filled)


def test_each_alert_says_what_to_do():
    assert all(len(told) > 30 and "{" not in told for told in DESCRIPTIONS.values())
    named = set(re.findall(r"WAVETRIM_[A-Z_]+[A-Z]", " ".join(DESCRIPTIONS.values())))
    assert named <= {f"WAVETRIM_{name.upper()}" for name in Settings.model_fields}


def test_the_operations_page_names_the_critical_alerts_and_counts_all():
    page = (ROOT / "docs" / "operations.md").read_text()
    critical = {rule["alert"] for rule in ALERTS if rule["labels"]["severity"] == "critical"}
    assert set(re.findall(r"`(Wavetrim\w+)`", page)) == critical
    assert f"and {len(ALERTS)}\n[alerts]" in page
