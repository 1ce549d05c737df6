"""What a real service tells: traces, as a collector of OpenTelemetry's protocol receives them.

Then what the log tells of a request, as text and as JSON, and what it never tells.
"""

import gzip
import json
import sys
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.processes import wait_until
from tests.server import NPY, RunningServer, encode_npy, make_server_fixture
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


KEY = "a-key-that-nobody-may-read"
IDS = {
    "X-Request-Id": "mine-17",
    "traceparent": HEADERS["traceparent"],
    "Authorization": f"Bearer {KEY}",
}

logged = make_server_fixture(variables={"TZ": "Asia/Kolkata"}, log_format="json", api_key=KEY)


def find_lines(logged, **fields):
    """The objects in the log that have these fields, once there are any."""

    def look():
        told = [json.loads(line) for line in logged.read_log().splitlines()]
        return [line for line in told if fields.items() <= line.items()]

    return wait_until(look)


def test_where_it_serves_is_a_line_of_the_log(logged):
    (line,) = find_lines(logged, logger="wavetrim.service.server.foreground")
    assert line["message"] == f"wavetrim is serving on {logged.url}"


def test_a_request_is_told_with_its_ids_its_caller_and_the_zone(logged):
    began = datetime.now(UTC)
    body = encode_npy(np.full((7, 7), 1234.5678))
    query = "/v1/matmul?alpha=8765.4321"
    answer = logged.client.post(query, content=2 * body, headers={**NPY, **IDS})
    assert (answer.status_code, answer.headers["x-request-id"]) == (200, "mine-17")
    (line,) = find_lines(logged, request_id="mine-17")
    assert line["trace_id"] == TRACE
    assert (line["client"], line["method"], line["path"], line["route"], line["status"]) == (
        "127.0.0.1", "POST", "/v1/matmul", "/v1/matmul", 200,
    )  # fmt: skip
    assert 0 < line["seconds"] < 60
    assert line["time"].endswith("+05:30")
    assert abs((datetime.fromisoformat(line["time"]) - began).total_seconds()) < 60
    log = logged.read_log()
    assert KEY not in log
    assert "1234.5678" not in log
    assert "8765.4321" not in log


def test_what_is_logged_of_a_job_has_the_trace_of_its_request(logged):
    logged.client.headers["Authorization"] = f"Bearer {KEY}"
    stored = logged.upload(np.ones((9, 9)))
    logged.stop()
    (logged.data_dir / "matrices" / f"{stored}.npy").write_bytes(b"changed")
    logged.restart()
    logged.client.headers.update(IDS)
    assert logged.wait_job(logged.post_job(stored, stored))["state"] == "failed"
    (told,) = find_lines(logged, trace_id=TRACE, logger="wavetrim.service.jobs.run")
    assert "is damaged" in told["message"]


@pytest.mark.parametrize(
    "header", ["", "00-1-2-03", f"00-{'0' * 32}-b7ad6b7169203331-01", f"ff-{TRACE}-{TRACE[:16]}-00"]
)
def test_a_trace_that_is_none_is_not_taken_over(logged, header):
    identity = f"odd-{len(header)}-{header[:2]}"
    headers = {"traceparent": header, "X-Request-Id": identity}
    assert logged.client.get("/v1/me", headers=headers).status_code in (200, 401)
    (line,) = find_lines(logged, request_id=identity)
    assert "trace_id" not in line


def test_a_request_that_a_stop_cuts_is_a_line_of_the_log(start_server):
    server = start_server(drain_seconds=0, last_answers_seconds=1)
    name = server.upload(np.ones((3000, 3000)))
    with server.connect() as stalled:
        ask = f"GET /v1/matrices/{name}/data HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        stalled.sendall(ask.encode())
        assert stalled.recv(100).startswith(b"HTTP/1.1 200")
        server.stop()
    log = server.read_log()
    assert "the service stops: a request has been cut" in log
    assert "Traceback" not in log
