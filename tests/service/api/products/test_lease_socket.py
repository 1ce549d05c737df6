"""The socket of leases while the process has no descriptor left."""

import asyncio
import os
import resource
import socket

from wavetrim.service.api.products.leases import LeaseSocket
from wavetrim.service.descriptors import Descriptors
from wavetrim.service.storage.memory.leases import Leases
from wavetrim.service.tenants.shares import BytesInFlight


def test_without_descriptors_a_caller_waits_and_the_loop_and_the_log_go_on(tmp_path, caplog):
    path = str(tmp_path / "socket")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)

    async def scenario():
        with (
            socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener,
            socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as caller,
        ):
            listener.bind(path)
            listener.listen()
            leases = LeaseSocket(
                listener, Leases(None, BytesInFlight(), Descriptors(None)), Descriptors(None)
            )
            next_descriptor = os.dup(listener.fileno())
            os.close(next_descriptor)
            resource.setrlimit(resource.RLIMIT_NOFILE, (next_descriptor, limits[1]))
            try:
                caller.connect(path)
                await asyncio.sleep(0.3)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            caller.send(b"no secret of a lease")
            caller.setblocking(False)
            answer = await asyncio.get_running_loop().sock_recv(caller, 1000)
            await leases.close()
            return answer

    answer = asyncio.run(asyncio.wait_for(scenario(), 20))
    assert b"one of a lease" in answer
    assert [record.levelname for record in caplog.records] == ["WARNING"]
