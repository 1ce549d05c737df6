"""Traces of a real service, as a collector of OpenTelemetry's protocol receives them."""

import gzip
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.processes import wait_until
from tests.server import RunningServer
from wavetrim.service.app import create_app
from wavetrim.service.errors import SettingRefused
from wavetrim.service.settings import Settings

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
HEADERS = {"traceparent": f"00-{TRACE}-{PARENT}-01"}


class Collector(ThreadingHTTPServer):
    """Receives spans; its variables let a service send them to it, soon."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Receiver)
        self.variables = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{self.server_port}",
            "OTEL_BSP_SCHEDULE_DELAY": "50", "OTEL_SERVICE_NAME": "multiplier",
        }  # fmt: skip
        self.spans = []
        self.services = set()

    def take(self, body):
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            named = {item.key: item.value.string_value for item in resource.resource.attributes}
            self.services.add(named["service.name"])
            for scope in resource.scope_spans:
                self.spans += scope.spans

    def find(self, trace, count):
        """The spans of a trace by name, once this number has come."""

        def look():
            found = [span for span in self.spans if span.trace_id.hex() == trace]
            return found if len(found) >= count else None

        found = wait_until(look)
        assert len(found) == count, [span.name for span in found]
        return {span.name: span for span in found}


class _Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        packed = self.headers.get("Content-Encoding") == "gzip"
        self.server.take(gzip.decompress(body) if packed else body)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        """Keep quiet."""


@pytest.fixture(scope="module")
def collector():
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def server(collector, tmp_path_factory):
    folder = tmp_path_factory.mktemp("traced")
    with RunningServer(folder / "data", traces="otlp", variables=collector.variables) as running:
        yield running


def seconds(span):
    return float(span.end_time_unix_nano - span.start_time_unix_nano) / 1e9


def test_a_product_is_a_span_with_its_queue_and_its_phases(server, collector):
    answer = server.multiply(*[np.ones((300, 300))] * 2, headers=HEADERS)
    assert answer.status_code == 200
    spans = collector.find(TRACE, 3)
    whole = spans.pop("POST /v1/matmul")
    assert whole.parent_span_id.hex() == PARENT
    assert spans.keys() == {"queue", "cpu"}  # and copy and kernel, where a GPU takes part
    told = dict(part.split(";dur=") for part in answer.headers["server-timing"].split(", "))
    for name, span in spans.items():
        assert span.parent_span_id == whole.span_id
        assert seconds(span) == pytest.approx(float(told[name]) / 1e3, abs=2e-6)
    assert whole.start_time_unix_nano <= spans["queue"].start_time_unix_nano
    assert spans["queue"].end_time_unix_nano == spans["cpu"].start_time_unix_nano
    assert "multiplier" in collector.services
    assert f"[{answer.headers['x-request-id']} {TRACE}]" in server.read_log()


def test_a_job_is_a_part_of_the_trace_of_its_request(server, collector):
    trace = TRACE[::-1]
    stored = server.upload(np.ones((50, 50)))
    headers = {"traceparent": f"00-{trace}-{PARENT}-01"}
    job = server.client.post("/v1/jobs", json={"a": stored, "b": stored}, headers=headers).json()
    ended = server.wait_job(job["id"])
    spans = collector.find(trace, 4)
    posted, whole = spans.pop("POST /v1/jobs"), spans.pop("job")
    assert (posted.parent_span_id.hex(), whole.parent_span_id) == (PARENT, posted.span_id)
    told = {item.key: item.value.string_value for item in whole.attributes}
    assert told == {"wavetrim.job": job["id"], "wavetrim.state": "succeeded"}
    assert {span.parent_span_id for span in spans.values()} == {whole.span_id}
    assert seconds(spans["cpu"]) == pytest.approx(ended["timings"]["cpu_seconds"], abs=2e-6)
    assert seconds(spans["queue"]) >= ended["timings"]["device_wait_seconds"] - 2e-6
    assert spans["queue"].end_time_unix_nano == spans["cpu"].start_time_unix_nano


@pytest.mark.gpu
def test_copies_and_kernels_of_a_gpu_are_spans_too(collector, tmp_path):
    settings = {"traces": "otlp", "devices": "0", "variables": collector.variables}
    with RunningServer(tmp_path / "data", **settings) as server:
        headers = {"traceparent": f"00-{'3' * 32}-{PARENT}-01"}
        answer = server.multiply(*[np.ones((1024, 1024), np.float32)] * 2, headers=headers, f=0)
        assert answer.status_code == 200
        spans = collector.find("3" * 32, 4)
    assert spans.keys() == {"POST /v1/matmul", "queue", "copy", "kernel"}
    told = dict(part.split(";dur=") for part in answer.headers["server-timing"].split(", "))
    assert seconds(spans["copy"]) == pytest.approx(float(told["transfer"]) / 1e3, abs=2e-6)
    assert seconds(spans["kernel"]) == pytest.approx(float(told["kernel"]) / 1e3, abs=2e-6)


def test_without_the_library_traces_are_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    monkeypatch.delitem(sys.modules, "wavetrim.service.telemetry.traces", raising=False)
    with pytest.raises(SettingRefused, match=r"traces is 'otlp'; it must be off, as OpenTelemetry"):
        create_app(Settings(traces="otlp"))


def test_a_look_at_the_services_health_makes_no_span(server, collector):
    server.client.get("/healthz/live", headers={"traceparent": f"00-{'1' * 32}-{PARENT}-01"})
    server.client.get("/v1/me", headers={"traceparent": f"00-{'2' * 32}-{PARENT}-01"})
    assert collector.find("2" * 32, 1).keys() == {"GET /v1/me"}
    assert not [span for span in collector.spans if span.trace_id.hex() == "1" * 32]
