"""Programs of the service in processes that are forked from one that has imported them.

`python -m wavetrim serve` takes a second or two of a core for its imports. Here one process imports
once and forks for each program. A program has its own `__main__`, environment, arguments,
descriptors, signals and exit status. Only what the interpreter reads at its start (PYTHON…
variables, the command line in /proc) is that of the first process.

A forked parent waits for each program and sends its exit status over a socket. A shell runs such a
program by `python -m tests.preloaded MODULE …`, with the socket of `share_preloaded`.
"""

import atexit
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from functools import cache
from pathlib import Path

from tests.environment import ROOT, clear_environment

SHARED_VARIABLE = "TESTS_PRELOADED_SOCKET"

_REQUEST_BYTES = 2**20
_IMPORTED = (
    *("scheduler.engine.__main__", "client", "service.app", "service.server.foreground"),
    *("service.cli.main", "service.api.wire.connection"),
    *(f"service.cli.commands.{file.stem}" for file in ROOT.glob("service/cli/commands/[a-z]*.py")),
)
_DEAF_TO = (signal.SIGINT, signal.SIGTERM)
"""Signals that a terminal sends to the whole group, also to the process that forks."""


class ForkedProcess:
    """A running program, used like a `subprocess.Popen`; its standard input is empty.

    `module` is what `python -m` would run, `environment` all of its environment, and `output` and
    `errors` are descriptors.
    """

    def __init__(self, module, arguments, *, folder, environment, output, errors):
        os.umask(umask := os.umask(0o077))
        request = [module, list(arguments), str(folder), dict(environment), umask]
        self._status, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        with theirs:
            files = [output, errors, theirs.fileno()]
            socket.send_fds(_start_preloaded(), [json.dumps(request).encode()], files)
        self.returncode = None
        self.pid = int(self._status.recv(32))

    def poll(self):
        """The exit status, negative for a signal; None while it runs."""
        if self.returncode is None and select.select([self._status], [], [], 0)[0]:
            self.returncode = int(self._status.recv(32))
            self._status.close()
        return self.returncode

    def wait(self, timeout=None):
        """Wait for its end.

        Raises:
            subprocess.TimeoutExpired: It still runs.
        """
        if self.returncode is None and not select.select([self._status], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        return self.poll()

    def send_signal(self, number):
        """Send a signal, if it has not ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self):
        self.send_signal(signal.SIGTERM)

    def kill(self):
        self.send_signal(signal.SIGKILL)


def share_preloaded():
    """The descriptor, to be passed on, of the socket that `SHARED_VARIABLE` is to name."""
    return _start_preloaded().fileno()


@cache
def _start_preloaded():
    """Start the process that forks, once; returns its socket. It ends with this process."""
    if SHARED_VARIABLE in os.environ:
        return socket.socket(fileno=int(os.environ[SHARED_VARIABLE]))
    ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _REQUEST_BYTES)
    with theirs:
        command = [sys.executable, "-m", "tests.preloaded", str(theirs.fileno())]
        process = subprocess.Popen(
            command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, env=clear_environment()
        )
    atexit.register(process.wait, 10)
    atexit.register(ours.close)
    return ours


def _become_program(requests):
    """Fork for each request; returns in each child, with the module that it is to run."""
    handlers = {number: signal.signal(number, signal.SIG_IGN) for number in _DEAF_TO}
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # a parent's exit status is never read
    while True:
        content, files, _, _ = socket.recv_fds(requests, _REQUEST_BYTES, 3)
        if not content:
            sys.exit()
        if os.fork() == 0:
            break
        for file in files:
            os.close(file)
    requests.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    output, errors, status = files
    if pid := os.fork():
        os.close(output)
        os.close(errors)
        os.write(status, str(pid).encode())
        ended = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        os.write(status, str(ended).encode())
        os._exit(0)
    os.close(status)
    for number, handler in handlers.items():
        signal.signal(number, handler)
    for file, standard in ((output, 1), (errors, 2)):
        os.dup2(file, standard)
        os.close(file)
    # What the first process had there may have been another kind of file.
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    module, sys.argv[1:], folder, environment, umask = json.loads(content)
    os.chdir(folder)
    os.umask(umask)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    return module


def _keep_routes():
    """Have FastAPI keep what it finds out of each route, and find it.

    Otherwise each service would at its first request, for a fifth of a second of a core.
    """
    from fastapi.routing import _EffectiveRouteContext as Found

    from wavetrim.service.app import create_app

    kept = {}
    find_out = Found.from_api_route

    def find(*, original_route, include_context):
        asked = replace(include_context, dependency_overrides_provider=None)  # that is the app
        before, found = kept.get(id(original_route), (None, None))
        if before != asked:
            found = find_out(original_route=original_route, include_context=include_context)
            kept[id(original_route)] = asked, found
        return found

    Found.from_api_route = find
    for route in create_app().routes:
        if hasattr(route, "effective_route_contexts"):
            list(route.effective_route_contexts())


def _has_engine():
    """Whether this program starts an engine of this host that finds the modules of this process."""
    if "serve" not in sys.argv or "WAVETRIM_RAY_ADDRESS" in os.environ:
        return False
    folders = [one for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one]
    changed = any(Path(one, "sitecustomize.py").exists() for one in folders)
    return not changed and {*folders} <= {*sys.path, str(ROOT)}


if __name__ == "__main__":
    if SHARED_VARIABLE in os.environ:
        environment = {name: text for name, text in os.environ.items() if name != SHARED_VARIABLE}
        program = ForkedProcess(
            sys.argv[1], sys.argv[2:], folder=Path.cwd(), environment=environment,
            output=1, errors=2,
        )  # fmt: skip
        for _number in _DEAF_TO:
            signal.signal(_number, lambda number, _: program.send_signal(number))
        sys.exit(program.wait())

    from tests.spare_engine import keep_spare_engine, run_spare_engine

    for _name in _IMPORTED:
        importlib.import_module(f"wavetrim.{_name}")
    _keep_routes()
    gc.freeze()  # or each program would look through all that was imported, at least as it ends
    _channel = socket.socket(fileno=int(sys.argv[1]))
    _module = _become_program(_channel)
    if _has_engine() and keep_spare_engine():
        run_spare_engine()
    else:
        runpy.run_module(_module, run_name="__main__", alter_sys=True)
