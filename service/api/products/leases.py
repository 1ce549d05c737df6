"""Leases: memory that callers on this host share with the service. Over the Unix socket only.

A lease is made by a call, and handed out on a socket beside the service's Unix socket: a caller
connects, sends the secret of its lease as one packet, and gets one packet back, a JSON document
with the descriptor of the lease's memory. The lease ends with the connection, which the kernel
closes when the caller's process ends.
"""

import asyncio
import json
import logging
import os
import socket
import struct
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Annotated, Final

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from wavetrim.service.api.calls import Call, CallRoute
from wavetrim.service.api.fields import read_model
from wavetrim.service.api.openapi import describe_json_body, list_refusals
from wavetrim.service.api.schemas import Owner
from wavetrim.service.descriptors import Descriptors
from wavetrim.service.errors import Crowded, FieldProblem, LeaseRefused
from wavetrim.service.storage.memory.leases import Lease, Leases
from wavetrim.service.tenants.tenant import Shares

logger = logging.getLogger(__name__)

LeaseId = Annotated[str, Field(description="Id of the lease.")]


SECRET_BYTES: Final = 256
"""Bytes that are read of a secret, more than it has."""

_SECRET_SECONDS: Final = 10.0
"""How long a caller may take to send its secret; chosen."""

_PAUSE_SECONDS: Final = 1.0
"""How long no caller is accepted after the process had no descriptor for one; chosen."""

_CREDENTIALS: Final = struct.Struct("3i")  # process, user, group


def find_lease_socket(unix_socket: Path) -> Path:
    """Where leases are handed out, beside a service's Unix socket."""
    return unix_socket.with_name(f"{unix_socket.name}.leases")


def check_unix(call: Call, *, otherwise: str = "") -> Path:
    """Make sure that a call has come over the Unix socket; returns its path.

    Args:
        call: The call.
        otherwise: What other callers can do instead, added to the refusal.

    Raises:
        LeaseRefused: It has not.
    """
    server = call.scope.get("server")
    limit = "over the service's Unix socket (WAVETRIM_UNIX_SOCKET): leases are for this host"
    limit += otherwise
    if server is None or server[1] is not None:  # TCP has a port
        raise LeaseRefused("connection", "TCP", limit)
    if (path := call.parts.settings.unix_socket) is None:
        raise LeaseRefused("connection", "another server's Unix socket", limit)
    return path


router = APIRouter(prefix="/v1/leases", tags=["leases"], route_class=CallRoute)


class LeaseRequest(BaseModel):
    """Memory that a caller wants."""

    model_config = ConfigDict(extra="forbid", strict=True)

    bytes: int = Field(ge=1, description="How much, rounded up to a multiple of 2 MiB.")


class LeaseGrant(BaseModel):
    """A new lease, and where to fetch its descriptor."""

    id: str = Field(description="How products name it.")
    bytes: int = Field(description="Its length.")
    socket: str = Field(
        description="Path of the SOCK_SEQPACKET socket that hands out its descriptor; the lease "
        "lasts as long as the connection."
    )
    token: str = Field(description="What to send there, once, within 10 seconds.")


class LeaseView(BaseModel):
    """A lease."""

    id: str = Field(description="How products name it.")
    bytes: int = Field(description="Its length.")
    age_seconds: float = Field(description="How long ago it was made.")
    locked: bool = Field(
        description="Whether all of it is page-locked, which takes about a second for each GiB. "
        "Until then its copies to a GPU are staged. Without a GPU nothing is locked."
    )
    owner: Owner


class LeaseList(BaseModel):
    """All leases."""

    leases: list[LeaseView] = Field(description="The oldest first.")


@router.post(
    "",
    status_code=201,
    responses=list_refusals(408, 413, 415, 429, 507),
    openapi_extra=describe_json_body(LeaseRequest),
)
async def create_lease(call: Call) -> LeaseGrant:
    """Lease memory, which counts against the arena's."""
    unix_socket = check_unix(call)
    request = read_model(LeaseRequest, await call.receive_document())
    lease, token = await call.parts.leases.make(request.bytes, call.tenant)
    path = str(find_lease_socket(unix_socket))
    return LeaseGrant(id=lease.id, bytes=lease.slab.size_bytes, socket=path, token=token)


@router.get("")
async def list_leases(call: Call) -> LeaseList:
    """List the caller's leases; to a caller with the scope admin, everybody's."""
    check_unix(call)
    return LeaseList(leases=[_show(lease) for lease in call.parts.leases.list(call.tenant.sees)])


@router.get("/{lease_id}", responses=list_refusals(404))
async def get_lease(call: Call, lease_id: LeaseId) -> LeaseView:
    """Show a lease, and whether it is page-locked yet."""
    check_unix(call)
    return _show(call.parts.leases.get(lease_id, call.tenant.sees))


@router.delete("/{lease_id}", status_code=204, responses=list_refusals(404))
async def delete_lease(call: Call, lease_id: LeaseId) -> None:
    """End a lease; its memory is given back when no product needs it any more."""
    check_unix(call)
    leases = call.parts.leases
    leases.end(leases.get(lease_id, call.tenant.sees))


def _show(lease: Lease) -> LeaseView:
    return LeaseView(
        id=lease.id,
        bytes=lease.slab.size_bytes,
        age_seconds=time.monotonic() - lease.made_at,
        locked=lease.slab.locked,
        owner=lease.owner,
    )


class LeaseSocket:
    """Answers on the socket. To be used from one event loop.

    Args:
        listener: A listening socket that keeps packets apart (SOCK_SEQPACKET).
        leases: What is handed out.
        descriptors: Counts the connections.
    """

    def __init__(self, listener: socket.socket, leases: Leases, descriptors: Descriptors) -> None:
        listener.setblocking(False)
        self._leases = leases
        self._descriptors = descriptors
        self._waiting = Shares("connections that have sent no secret yet", descriptors.few)
        self._callers: set[asyncio.Task[None]] = set()
        self._accepting = asyncio.create_task(self._accept(listener), name="leases")

    async def close(self) -> None:
        """Accept no more callers, and close all connections.

        The leases are not ended, so that their memory is not given back: a caller that has mapped
        one keeps its bytes when the service stops.
        """
        tasks = [self._accepting, *self._callers]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(listener)
            except OSError as error:  # without descriptors the caller waits; no busy loop
                logger.warning("callers cannot be accepted now: %s", error.strerror)
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            task = asyncio.create_task(self._serve(connection), name="lease")
            self._callers.add(task)
            task.add_done_callback(self._callers.discard)

    async def _serve(self, connection: socket.socket) -> None:
        """Hand a lease out, and end it with its connection."""
        with connection, ExitStack() as taken:
            connection.setblocking(False)
            try:
                with self._waiting.take(""):
                    taken.callback(self._descriptors.take("", "connections for leases"))
                    lease = await self._read_secret(connection)
            except (Crowded, FieldProblem) as error:
                _refuse(connection, error)
            else:
                if lease is not None:
                    await self._hand_out(connection, lease)

    async def _read_secret(self, connection: socket.socket) -> Lease | None:
        """The lease whose secret a caller sends; None if it sends none.

        Raises:
            FieldProblem: The caller is another user, or there is no lease with that secret.
        """
        packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        _, user, _ = _CREDENTIALS.unpack(packed)
        if user not in {os.geteuid(), 0}:
            raise FieldProblem("user", user, f"{os.geteuid()}, whose service this is")
        packet = b""
        with suppress(OSError):  # it is too late, or the caller has left
            async with asyncio.timeout(_SECRET_SECONDS):
                packet = await asyncio.get_running_loop().sock_recv(connection, SECRET_BYTES)
        lease = self._leases.claim(packet.decode("latin-1")) if packet else None
        if packet and lease is None:
            limit = "one of a lease whose descriptor was not fetched before"
            raise FieldProblem("token", "…", limit)
        return lease

    async def _hand_out(self, connection: socket.socket, lease: Lease) -> None:
        """Send a lease's descriptor, and end the lease with the connection, and that with it."""
        task = asyncio.current_task()
        assert task is not None

        def close() -> None:
            task.cancel()

        lease.on_end = close
        document = {"id": lease.id, "bytes": lease.slab.size_bytes}
        with suppress(OSError):  # the caller has left
            socket.send_fds(connection, [json.dumps(document).encode()], [lease.slab.fd])
            # Its end, or a second packet, ends the connection.
            await asyncio.get_running_loop().sock_recv(connection, 1)
        lease.on_end = lambda: None
        self._leases.end(lease)


def _refuse(connection: socket.socket, error: FieldProblem | Crowded) -> None:
    document = {"field": error.field, "value": error.value, "limit": error.limit}
    try:
        connection.send(json.dumps(document).encode(), socket.MSG_DONTWAIT)
    except OSError:
        logger.debug("a caller has left before it was refused")
