"""What runs out: the disk, the arena, shared memory, descriptors, a control group's memory."""

import os
import shutil
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest

from tests.faults.fault import Fault
from tests.groups import memory_group
from tests.mounts import mounted_tmpfs
from tests.server import NPY, RunningServer, decode_npy, encode_npy, open_http

FEW_DESCRIPTORS = ("sh", "-c", 'ulimit -n 64; exec "$@"', "sh")
"""What runs a command that may open 64 descriptors."""

_FULL_SHARED_MEMORY = (
    *("unshare", "--mount", "sh", "-c"),
    (
        "mount -t tmpfs -o size=64k tmpfs /dev/shm && head -c 65536 /dev/zero >/dev/shm/full; "
        'exec "$@"'
    ),
    "sh",
)

_MIB = 2**20


class FullDisk(Fault):
    """The file system of the data folder, the database with it, has no byte left."""

    needs = "mounts"
    told = "the disk is full, the database's with it"
    reasons = frozenset({"storage"})

    def start(self, folder, stack):
        self._disk = stack.enter_context(mounted_tmpfs("48m"))
        stack.callback(shutil.copy, self._disk / "data.log", folder)
        return RunningServer(self._disk / "data", reserve_bytes=0)

    def strike(self, chance):
        ballast = self._disk / "ballast"
        fill(ballast)
        time.sleep(chance.uniform(0.2, 1.5))
        ballast.unlink()


def fill(path):
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(_MIB))
    with path.open("ab", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(512))


class FullArena(Fault):
    """Matrices that are in memory only take the whole arena."""

    told = "the arena is full of what cannot leave it"

    settings = MappingProxyType({"arena_bytes": "16MiB", "arena_slab_bytes": 2 * _MIB})

    def strike(self, chance):
        content = encode_npy(np.ones((256, 1024)))
        kept = []
        while True:
            path = "/v1/matrices?storage=memory"
            answer = self.server.client.post(path, content=content, headers=NPY)
            if answer.status_code == 507:
                break
            kept.append(answer.raise_for_status().json()["id"])
        time.sleep(chance.uniform(0.2, 1.0))
        for matrix_id in kept:
            self.server.client.delete(f"/v1/matrices/{matrix_id}").raise_for_status()


class FullSharedMemory(Fault):
    """/dev/shm has no byte left while the service runs."""

    needs = "mounts"
    told = "/dev/shm is full"

    def start(self, folder, stack):
        tried = subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True)
        if tried.returncode != 0:
            pytest.skip(f"no mounts of its own are allowed here: {tried.stderr.decode().strip()}")
        return RunningServer(folder / "data", prefix=_FULL_SHARED_MEMORY)

    def strike(self, chance):
        shared = Path(f"/proc/{self.server.process.pid}/root/dev/shm")
        assert (shared / "full").stat().st_size == 65536
        assert os.statvfs(shared).f_bavail == 0, "it is not full"


class FewDescriptors(Fault):
    """64 descriptors, and more connections than that."""

    told = "64 descriptors, and 100 connections that say nothing"

    settings = MappingProxyType({"prefix": FEW_DESCRIPTORS})

    def strike(self, chance):
        with ExitStack() as stack:
            for _ in range(100):
                with suppress(OSError):
                    where = ("127.0.0.1", self.server.port)
                    stack.enter_context(socket.create_connection(where, timeout=5))
            time.sleep(chance.uniform(0.2, 1.0))


class SmallGroup(Fault):
    """A control group of 500 MiB, and more matrices at once than fit."""

    needs = "memory-group"
    told = "a control group of 500 MiB, and 700 MiB of matrices at once"
    reasons = frozenset({"engine", "memory", "storage"})

    def start(self, folder, stack):
        prefix = stack.enter_context(memory_group(500 * _MIB)).prefix
        return RunningServer(folder / "data", prefix=prefix, arena_bytes="4GiB")

    def strike(self, chance):
        factor = chance.randrange(1, 9)
        content = 2 * encode_npy(factor * np.eye(1350))
        product = factor**2 * np.eye(1350)
        pid = self.server.process.pid
        with ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(lambda _: self._multiply(content), range(16)))
        assert self.server.process.pid == pid
        assert self.server.process.poll() is None, "the service was killed"
        for answer in answers:
            if answer.status_code == 200:
                if not np.array_equal(decode_npy(answer.content), product):
                    self.ledger.note("damaged", "an answered product")
            elif answer.status_code not in (503, 507):
                self.ledger.note("unexplained", f"{answer.status_code}: {answer.text}")

    def _multiply(self, content):
        with open_http(self.server.url, timeout=120) as client:
            return client.post("/v1/matmul", content=content, headers=NPY)
