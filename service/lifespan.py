"""The life of a service: its parts are started in order, and stopped in reverse."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from socket import SOCK_SEQPACKET

from fastapi import FastAPI

from wavetrim.service.api.products.lease_socket import LeaseSocket, find_lease_socket
from wavetrim.service.descriptors import Descriptors
from wavetrim.service.parts import Frame, Parts, make_parts
from wavetrim.service.settings import Settings
from wavetrim.service.storage.database.claim import wait_for_database
from wavetrim.service.storage.folder.data_folder import claim_folder, pair
from wavetrim.service.storage.memory.leases import Leases
from wavetrim.service.threads import run_to_end
from wavetrim.service.unix_socket import claim_socket


@asynccontextmanager
async def run_parts(app: FastAPI) -> AsyncIterator[None]:
    """Starts database, stores, engine and dispatcher; lets the running job end when it stops."""
    frame: Frame = app.state.parts
    settings = frame.settings
    with claim_folder(settings.data_dir):
        database = await wait_for_database(settings.database, settings.data_dir, frame.given_up)
        try:
            await run_to_end(pair, database, settings.data_dir)
            app.state.parts = parts = make_parts(frame, database)
            async with _run(parts):
                yield
        finally:
            database.dispose()


@asynccontextmanager
async def _run(parts: Parts) -> AsyncIterator[None]:
    """Starts the parts, and stops them in reverse when the block ends."""
    await run_to_end(parts.keys.read, parts.database)
    if parts.tokens is not None:
        await parts.tokens.keys.start()
    parts.keys.start(parts.database)
    await run_to_end(parts.matrices.sweep)
    for process in parts.fleet.processes:
        await process.start()
    # The arena's first pages take a second; requests that need memory earlier wait for them.
    making = asyncio.create_task(parts.arena.start(), name="arena-start")
    try:
        await parts.dispatcher.start()
        parts.housekeeping.start()
        with _hand_out_leases(parts.settings, parts.leases, parts.descriptors):
            yield
            if not parts.dispatcher.draining:
                await parts.dispatcher.drain(parts.settings.drain_seconds)
    finally:
        await parts.keys.stop()
        if parts.tokens is not None:
            await parts.tokens.keys.stop()
        await parts.housekeeping.stop()
        await parts.dispatcher.stop()
        for process in parts.fleet.processes:
            await process.stop()
        await run_to_end(parts.matrices.close)
        await making
        await parts.arena.close()
        if parts.traces is not None:
            await run_to_end(parts.traces.close)


@contextmanager
def _hand_out_leases(
    settings: Settings, leases: Leases, descriptors: Descriptors
) -> Iterator[None]:
    """Where there is a Unix socket, hands their leases to callers until the block ends."""
    if settings.unix_socket is None:
        yield
        return
    path = find_lease_socket(settings.unix_socket)
    with claim_socket(path, kind=SOCK_SEQPACKET) as listener:
        lease_socket = LeaseSocket(listener, leases, descriptors)
        try:
            yield
        finally:
            lease_socket.close()
