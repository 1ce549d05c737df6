"""A real service that is watched while somebody tries to break it.

    with WatchedService() as service:
        ...  # whatever goes over its sockets
        service.check_now()
    # at the end of the block nothing may have leaked, and the log holds no traceback

A product of random matrices, asked for in between, must be right and come in time. What is wrong is
a `Fault`.
"""

import contextlib
import re
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from tests.fuzz.answers import FINE_5XX
from tests.fuzz.fault import Fault
from tests.own_memory import measure_own
from tests.processes import list_family
from tests.server import NPY, RunningServer, decode_npy, encode_npy, open_http

KEY = "a key of sixteen characters"
AUTHORIZED = {"Authorization": f"Bearer {KEY}"}

ANSWER_SECONDS = 15.0
"""No answer may take longer, and no connection may be kept longer without one."""

OWN_BYTES = 64 * 2**20
"""By so much the service's own memory may grow until its caches and allocators have settled.

In ten minutes of hostile connections it grew by 52 MiB, by 0.3 of these in the last third.
"""

SLACK = 8
"""So many more descriptors and threads there may be: pools are not always as full."""

NEVER = "never-"
"""The id of a request that lies in another one's body, and is none, begins so."""

_SETTLE_SECONDS = 40.0
_ANSWERED = re.compile(r"admission \[(\S+)[^\]]*\] \S+ .* (\d{3}) ([\d.]+) ms for \S+$")
_BROKEN = re.compile(r"Traceback|incident|Fatal|never retrieved")
_ENGINE_ENDED = re.compile(r"the engine \(pid \d+\) ended")


class Stored(NamedTuple):
    """A stored matrix: its id and its .npy file."""

    id: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Holdings:
    """What the service and its engine hold."""

    own_bytes: int
    descriptors: int
    threads: int
    arena_bytes: int

    def find_growth(self, before):
        """What has grown since, in words."""
        allowed = {"own_bytes": OWN_BYTES, "descriptors": SLACK, "threads": SLACK}
        return [
            f"{name} was {getattr(before, name)} and is {getattr(self, name)}"
            for name in self.__slots__
            if getattr(self, name) > getattr(before, name) + allowed.get(name, 0)
        ]


class WatchedService:
    """A service in a folder of its own, with a key, over TCP and a Unix socket.

    Args:
        side: Rows and columns of the `matrices` that are stored in it.
        is_killed: Whether somebody kills its engine.
        settings: Settings of the service, in place of the usual ones.
    """

    def __init__(self, *, side=5, is_killed=False, **settings):
        self._side = side
        self._is_killed = is_killed
        self._folder = TemporaryDirectory(prefix="wavetrim-fuzz-")
        folder = Path(self._folder.name)
        self.unix_socket = folder / "socket"
        usual = {"arena_bytes": 2**28, "arena_poison": True, "upload_idle_seconds": 5}
        self.server = RunningServer(
            folder / "data",
            api_key=KEY,
            unix_socket=self.unix_socket,
            metrics="key",
            kernel_cache_dir=folder / "kernels",
            **{**usual, **settings},
        )
        self._random = np.random.default_rng(0)
        self._read_bytes = 0
        self._statuses = Counter()
        self.matrices = ()

    def __enter__(self):
        try:
            self.server.client.headers.update(AUTHORIZED)
            self.server.wait_ready()
            self.matrices = tuple(self._store() for _ in range(3))
            self._warm_up()
            self._before = self.look()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, kind, error, trace):
        try:
            if kind is None:
                self.check_now()
                self._check_settled()
        finally:
            self._stop()

    def check_now(self):
        """Make sure that the service computes what is right, in time, and has logged no fault.

        Raises:
            Fault: It does not.
        """
        if self.server.process.poll() is not None:
            raise Fault(f"the service has ended:\n{self.server.read_log()[-4000:]}")
        m, k, n = self._random.integers(1, 150, 3)
        a, b = self._random.random((m, k)), self._random.random((k, n))
        began = time.monotonic()
        with open_http(self.server.url, headers=AUTHORIZED) as client:
            answer = client.post("/v1/matmul", content=encode_npy(a) + encode_npy(b), headers=NPY)
        seconds = time.monotonic() - began
        if answer.status_code not in {200, *FINE_5XX}:
            raise Fault(f"a control product has status {answer.status_code}: {answer.text}")
        if answer.status_code == 200 and not np.allclose(decode_npy(answer.content), a @ b):
            raise Fault(f"a control product of {(m, k, n)} is wrong")
        if seconds > ANSWER_SECONDS:
            raise Fault(f"a control product took {seconds:.1f} s")
        self._read_log()

    def look(self):
        arena = self.server.client.get("/v1/devices").json()["arena"]
        pid = self.server.process.pid
        family = list_family(pid)
        return Holdings(
            own_bytes=measure_own(pid),
            descriptors=sum(len(list(Path(f"/proc/{one}/fd").iterdir())) for one in family),
            threads=sum(len(list(Path(f"/proc/{one}/task").iterdir())) for one in family),
            arena_bytes=arena["used_bytes"],
        )

    def count_answers(self):
        return ", ".join(f"{status}: {count}" for status, count in sorted(self._statuses.items()))

    def forget_matrices(self):
        """Delete all matrices but `matrices`, as far as no job needs them."""
        kept = {matrix.id for matrix in self.matrices}
        for matrix in self.server.list_all("matrices"):
            if matrix["id"] not in kept:
                self.server.client.delete(f"/v1/matrices/{matrix['id']}")

    def _store(self):
        array = self._random.random((self._side, self._side))
        matrix = self.server.upload(array)
        answer = self.server.client.get(f"/v1/matrices/{matrix}/data")
        assert np.array_equal(decode_npy(answer.content), array)
        return Stored(matrix, answer.content)  # whose header may be longer than it was

    def _warm_up(self):
        """Have the service start all threads and fill all pools that it ever will."""

        def ask(number):
            with open_http(self.server.url, headers=AUTHORIZED) as client:
                client.get("/v1/matrices")
                client.post("/v1/matrices", content=encode_npy(np.eye(3)), headers=NPY)
                client.get(f"/v1/plan?m={number + 1}&n=64&k=64&device=H200")

        with ThreadPoolExecutor(64) as pool:
            list(pool.map(ask, range(300)))
        for _ in range(100):
            self.check_now()
        self.forget_matrices()
        time.sleep(1)

    def _list_descriptors(self):
        """What the descriptors of the service and its engine are, and how many of each kind."""
        kinds = Counter()
        for one in list_family(self.server.process.pid):
            for file in Path(f"/proc/{one}/fd").iterdir():
                with contextlib.suppress(OSError):
                    kinds[f"{one} {re.sub('[0-9]+', '#', str(file.readlink()))}"] += 1
        return dict(kinds.most_common())

    def _check_settled(self):
        """Wait until all that was held is let go of."""
        end = time.monotonic() + _SETTLE_SECONDS
        while True:
            self.forget_matrices()
            for _ in range(200):  # so that its garbage is collected: errors refer to mapped files
                self.server.client.get("/healthz/live")
            after = self.look()
            grown = after.find_growth(self._before)
            if not grown:
                break
            if time.monotonic() > end:
                raise Fault(f"{'; '.join(grown)}; descriptors: {self._list_descriptors()}")
            time.sleep(0.5)
        print(f"held before: {self._before}\nheld after:  {after}", flush=True)
        self._read_log()

    def _read_log(self):
        """Look at what was logged since the last call, in whole lines."""
        with self.server.log.open("rb") as log:
            log.seek(self._read_bytes)
            content = log.read()
        content = content[: content.rfind(b"\n") + 1]
        self._read_bytes += len(content)
        lines = content.decode(errors="replace").splitlines()
        for number, line in enumerate(lines):
            if _BROKEN.search(line) or (not self._is_killed and _ENGINE_ENDED.search(line)):
                told = "\n".join(lines[max(0, number - 5) : number + 80])
                raise Fault(f"the log says: {line}\n{told}")
            if found := _ANSWERED.search(line):
                self._judge(found[1], int(found[2]), float(found[3]) / 1e3)

    def _judge(self, request, status, seconds):
        self._statuses[status] += 1
        if status >= 500 and status not in FINE_5XX:
            raise Fault(f"request {request} was answered with {status}")
        if seconds > ANSWER_SECONDS:
            raise Fault(f"request {request} took {seconds:.1f} s")
        if request.startswith(NEVER):
            raise Fault(f"{request}, a part of a body, was taken for a request")

    def _stop(self):
        with contextlib.suppress(Exception):
            self.server.stop()
        self._folder.cleanup()
