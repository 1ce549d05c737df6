"""A service's first engine, forked before the service runs, by a process that has imported both.

`python -m wavetrim.scheduler.engine` takes 0.4 s of a core for its imports, and hundreds of
services start one. Here the engine is a child that waits until its service starts it. It gets the
command's arguments, environment and descriptors, and has a session of its own. Engines that a
service starts later are started as ever.
"""

import asyncio
import fcntl
import json
import os
import runpy
import socket
import sys

MODULE = "wavetrim.scheduler.engine"
_REQUEST_BYTES = 2**20
_ABOVE = 500
"""Descriptors from here on are none of the service's."""


def keep_spare_engine():
    """Fork an engine that waits, for the program that this process becomes; True in the engine."""
    ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
    if pid := os.fork():
        theirs.close()
        _start_by(pid, ours)
        return False
    ours.close()
    os.setsid()
    _wait_to_be_started(theirs)
    return True


class _Started:
    """The engine, as the part of `asyncio.subprocess.Process` that a service uses."""

    def __init__(self, pid):
        self.pid = pid
        self.returncode = None
        self._ended = asyncio.get_running_loop().create_future()
        self._watched = os.pidfd_open(pid)
        asyncio.get_running_loop().add_reader(self._watched, self._collect)

    def _collect(self):
        asyncio.get_running_loop().remove_reader(self._watched)
        os.close(self._watched)
        self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        self._ended.set_result(None)

    async def wait(self):
        """Its exit status, once it has ended."""
        await asyncio.shield(self._ended)
        return self.returncode


def _start_by(pid, channel):
    """Let the first start of an engine in this process be that of the spare one."""
    start = asyncio.create_subprocess_exec

    async def start_spare(*command, **options):
        if MODULE not in command or channel.fileno() < 0:
            return await start(*command, **options)
        arguments = command[command.index(MODULE) + 1 :]
        files = options["pass_fds"]
        os.umask(umask := os.umask(0o077))
        request = json.dumps([arguments, options["env"], umask, files]).encode()
        with channel:
            socket.send_fds(channel, [request], [options["stdout"], *files])
        return _Started(pid)

    asyncio.create_subprocess_exec = start_spare


def _wait_to_be_started(channel):
    """Wait for the request; become the process that it describes, or end with the service."""
    content, files, _, _ = socket.recv_fds(channel, _REQUEST_BYTES, 16)
    if not content:
        os._exit(0)
    sys.argv[1:], environment, umask, wanted = json.loads(content)
    os.umask(umask)
    moved = [fcntl.fcntl(file, fcntl.F_DUPFD, _ABOVE) for file in files]
    os.closerange(3, _ABOVE)
    channel.detach()
    for file, place in zip(moved, (1, *wanted), strict=True):
        os.dup2(file, place)
        os.close(file)
    os.dup2(1, 2)
    os.environ.clear()
    os.environ.update(environment)


def run_spare_engine():
    """Run the engine that this process has become."""
    runpy.run_module(MODULE, run_name="__main__", alter_sys=True)
