"""A real Prometheus that watches one service, with the rules of deploy/."""

import contextlib
import json
import shutil
import urllib.parse
import urllib.request
from dataclasses import dataclass

import yaml

from tests.processes import running
from tests.server import ROOT, find_free_port

FOLDER = ROOT / "deploy" / "prometheus"
SCRAPE_SECONDS = 0.25


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
        "scrape_interval": f"{SCRAPE_SECONDS * 1e3:.0f}ms", "evaluation_interval": "250ms",
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
