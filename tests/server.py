"""A real server in a process of its own, over a folder of its own, and a client for it.

    def test_something(server):
        response = server.client.get("/v1/devices")

    with RunningServer(tmp_path / "data", arena_bytes=0) as server:
        ...

Fixtures, known in all tests by conftest.py: `server` is one server for a module, `shared_server`
one for all modules, and `start_server` starts servers with settings of their own. A module whose
server has settings says `server = make_server_fixture(arena_bytes=0)`.
"""

import io
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import numpy as np
import pytest

from deploy.readiness import find_free_port
from tests.changed_program import PLACES, describe_constants, name_program
from tests.environment import ROOT, SHARED_CONSTANTS, SHARED_SETTINGS, clear_environment
from tests.limit import allow
from tests.preloaded import ForkedProcess
from tests.processes import list_children, wait_until

_SERVE = ("serve", "--log-level", "debug", "--port")
NPY = {"Content-Type": "application/x-npy"}


class RunningServer:
    """A started service. As a context it is ready to compute, and stopped at the end.

    Args:
        data_dir: Its data folder; may be that of an earlier server.
        prefix: A command that runs the service, such as one that enters a control group.
        variables: More variables of its environment.
        modules: A folder where its engine finds modules first, such as a `sitecustomize`.
        until_live: Whether to wait until the process answers.
        settings: More settings by name, and constants that `tests/changed_program.py` changes.
    """

    def __init__(
        self, data_dir, *, prefix=(), variables=None, modules=None, until_live=True, **settings
    ):
        self.data_dir = data_dir
        self.prefix = prefix
        self.variables = variables or {}
        self.modules = [] if modules is None else [modules]
        constants = {name: settings.pop(name) for name in PLACES if name in settings}
        self.constants = describe_constants(**{**SHARED_CONSTANTS, **constants})
        self.settings = settings
        self.port = int(settings.get("port") or find_free_port())
        self.url = f"{'https' if 'tls_certificate' in settings else 'http'}://127.0.0.1:{self.port}"
        self.log = data_dir.with_suffix(".log")
        self.process = self._launch()
        self.client = self._open_client()
        if until_live:
            self.wait_live()

    def __enter__(self):
        try:
            self.wait_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def _launch(self):
        wanted = {"data_dir": self.data_dir, **SHARED_SETTINGS, **self.settings}
        settings = {f"WAVETRIM_{name.upper()}": str(value) for name, value in wanted.items()}
        environment = {
            **clear_environment(*self.modules), **settings, **self.constants, **self.variables
        }  # fmt: skip
        program = name_program(environment)
        arguments = [*_SERVE, str(self.port)]
        with self.log.open("ab") as log:
            if not self.prefix:
                return ForkedProcess(
                    program, arguments, folder=ROOT, environment=environment,
                    output=log.fileno(), errors=log.fileno(),
                )  # fmt: skip
            return subprocess.Popen(
                [*self.prefix, sys.executable, "-m", program, *arguments],
                cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    @property
    def unix_socket(self):
        """Where it listens beside TCP, if it was told to."""
        return Path(self.settings["unix_socket"])

    @property
    def _trusted(self):
        """What trusts its certificate; None if it serves without TLS."""
        certificate = self.settings.get("tls_certificate")
        return None if certificate is None else ssl.create_default_context(cafile=str(certificate))

    def _open_client(self):
        trusted = self._trusted
        if trusted is None:
            return open_http(self.url)
        return httpx.Client(base_url=self.url, verify=trusted, timeout=60)

    def wait_live(self, seconds=60):
        """Wait until the process answers."""
        self._wait_ok("/healthz/live", seconds)

    def wait_ready(self, seconds=60):
        """Wait until the service computes."""
        self._wait_ok("/healthz/ready", seconds)

    def _wait_ok(self, path, seconds):
        began = time.monotonic()
        answer = "nothing"
        while time.monotonic() - began < allow(seconds):
            if self.process.poll() is not None:
                break
            try:
                response = self.client.get(path)
                if response.status_code == 200:
                    return
                answer = response.text
            except httpx.TransportError as error:
                answer = repr(error)
            time.sleep(0.02)
        raise AssertionError(f"{path} answered {answer}; the log:\n{self.read_log()[-4000:]}")

    def wait_logged(self, words):
        wait_until(lambda: words in self.read_log())

    def read_log(self):
        return self.log.read_text(errors="replace")

    def connect(self, way="tcp", *, receive_buffer=None, seconds=60):
        """A connection; the caller closes it.

        `way` is "tcp", with TLS if it serves so, "unix", or "leases" for the socket beside that.
        """
        if way != "tcp":
            kind = socket.SOCK_SEQPACKET if way == "leases" else socket.SOCK_STREAM
            connection = socket.socket(socket.AF_UNIX, kind)
            connection.settimeout(seconds)
            connection.connect(f"{self.unix_socket}{'.leases' if way == 'leases' else ''}")
            return connection
        connection = socket.socket()
        connection.settimeout(seconds)
        if receive_buffer is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        connection.connect(("127.0.0.1", self.port))
        if self._trusted is None:
            return connection
        return self._trusted.wrap_socket(connection, server_hostname="127.0.0.1")

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def kill(self):
        """Kill the service, as the out-of-memory killer does."""
        self.client.close()
        self.process.kill()
        self.process.wait(10)

    def stop(self, seconds=30):
        """Stop the service in good order; returns its exit code."""
        self.client.close()
        if self.process.poll() is None:
            self.terminate()
        try:
            return self.process.wait(seconds)
        finally:
            self.process.kill()
            self.process.wait(10)

    def restart(self):
        """Start the service again, until it is ready, with its folder and port."""
        self.client.close()
        self.process = self._launch()
        self.client = self._open_client()
        self.wait_ready()

    def upload(self, array, **query):
        """Store an array; returns the matrix's id."""
        content = encode_npy(array)
        response = self.client.post("/v1/matrices", content=content, headers=NPY, params=query)
        assert response.status_code == 201, response.text
        return response.json()["id"]

    def multiply(self, *arrays, headers=None, **query):
        """The answer to a product in one call."""
        content, headers = b"".join(map(encode_npy, arrays)), {**NPY, **(headers or {})}
        return self.client.post("/v1/matmul", content=content, headers=headers, params=query)

    def download(self, path):
        """Fetch an array from a path that sends .npy files."""
        response = self.client.get(path)
        assert response.status_code == 200, response.text
        return decode_npy(response.content)

    def post_job(self, a, b, **options):
        """Post a job of arrays or of ids of stored matrices; returns the job's id."""
        operands = {
            name: one if isinstance(one, str) else self.upload(one)
            for name, one in (("a", a), ("b", b))
        }
        response = self.client.post("/v1/jobs", json={**operands, **options})
        assert response.status_code == 202, response.text
        return response.json()["id"]

    def run_job(self, a, b, **options):
        """Post a job, as `post_job` does; returns it as it has succeeded."""
        job = self.wait_job(self.post_job(a, b, **options))
        assert job["state"] == "succeeded", job
        return job

    def wait_job(self, job_id, seconds=60):
        """Wait until a job has ended; returns it as the service shows it."""
        began = time.monotonic()
        while True:
            job = self.client.get(f"/v1/jobs/{job_id}?wait_seconds=10").json()
            if job["state"] not in ("queued", "running"):
                return job
            assert time.monotonic() - began < allow(seconds), job

    def list_all(self, what, limit=200, client=None):
        """All "matrices" or "jobs" of a client, by pages of at most this number."""
        found = []
        query = {"limit": limit}
        while True:
            page = (client or self.client).get(f"/v1/{what}", params=query).json()
            assert len(page[what]) <= limit
            found += page[what]
            if page["next_cursor"] is None:
                return found
            query["cursor"] = page["next_cursor"]

    def read_metric(self, name):
        """A metric's value by its name with labels; 0 if there is none yet."""
        text = self.client.get("/metrics").text
        assert name.split("{", maxsplit=1)[0] in text, name
        lines = (line for line in text.splitlines() if line.startswith(f"{name} "))
        return next((float(line.split(" ")[-1]) for line in lines), 0.0)

    def read_arena(self, what):
        """A number of the arena, such as "used_bytes"."""
        return self.read_metric(f'wavetrim_arena{{what="{what}"}}')

    def find_engine(self):
        """The engine's process, once there is one."""

        def look():
            children = list_children(self.process.pid)
            return children if len(children) == 1 else None

        return wait_until(look)[0]

    @contextmanager
    def engine_stopped(self):
        """No job ends meanwhile, but for small ones without `verify`: the service computes them."""
        engine = self.find_engine()
        os.kill(engine, signal.SIGSTOP)
        try:
            yield
        finally:
            with suppress(ProcessLookupError):  # it went with its service
                os.kill(engine, signal.SIGCONT)

    def list_matrix_files(self):
        """Names of the files in the folder of the matrices."""
        return {path.name for path in (self.data_dir / "matrices").iterdir()}


def make_server_fixture(*, has_socket=False, **settings):
    """A fixture: one server with these settings for a module's tests, ready to compute.

    With `has_socket` it listens on a Unix socket, too, beside its data folder.
    """

    @pytest.fixture(scope="module")
    def server(tmp_path_factory):
        folder = tmp_path_factory.mktemp("server")
        socket_setting = {"unix_socket": folder / "socket"} if has_socket else {}
        with RunningServer(folder / "data", **settings, **socket_setting) as running:
            yield running

    return server


server = make_server_fixture()


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory):
    """One server for all tests that do not depend on what others have stored."""
    folder = tmp_path_factory.mktemp("shared")
    with RunningServer(folder / "data", unix_socket=folder / "socket") as running:
        yield running


@pytest.fixture
def start_server(tmp_path):
    """Starts servers with settings of their own, ready to compute unless they are not to be live.

    All are stopped after the test.
    """
    started = []

    def start(*, until_live=True, **settings):
        folder = tmp_path / f"data{len(started)}"
        started.append(RunningServer(folder, until_live=until_live, **settings))
        if until_live:
            started[-1].wait_ready()
        return started[-1]

    yield start
    for running in started:
        running.stop()


def open_http(where, **options):
    """A client of a URL or a Unix socket, without TLS: to read certificates takes 40 ms."""
    options = {"base_url": str(where), "timeout": 60, **options}
    # The service closes idle connections after 5 s, perhaps just as a request arrives.
    limits = httpx.Limits(keepalive_expiry=3)
    if isinstance(where, Path):
        options["base_url"] = "http://localhost"
        options["transport"] = httpx.HTTPTransport(uds=str(where), verify=False, limits=limits)
    return httpx.Client(verify=False, limits=limits, **options)


def encode_npy(array):
    """The array as `numpy.save` writes it."""
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def decode_npy(content):
    """The array in a .npy file."""
    return np.load(io.BytesIO(content), allow_pickle=False)
