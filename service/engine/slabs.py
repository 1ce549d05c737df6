"""The arena's slabs, and the processes that map them and page-lock them."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from wavetrim.service.engine.supervisor import Supervisor
from wavetrim.service.storage.memory.arena import Arena
from wavetrim.service.storage.memory.slab import Slab


class SharedSlabs:
    """Sends each process the arena's slabs, and notes which are page-locked.

    A process maps a slab at once; the engine page-locks it in the background, and already computes
    in it. A slab that leaves is given back when every process has let go of it, or is gone.

    Args:
        arena: Has the slabs.
        processes: Get their descriptors; the first is the engine, which page-locks them.
        on_ready: Called when a process takes runs and was sent all slabs.
    """

    def __init__(
        self, arena: Arena, processes: Sequence[Supervisor], on_ready: Callable[[], None]
    ) -> None:
        self._arena = arena
        self._engine = processes[0]
        self._on_ready = on_ready
        # By process and slab, a future that is done when the process has let go of the slab.
        self._sent: dict[Supervisor, dict[int, asyncio.Future[None]]] = {
            process: {} for process in processes
        }
        arena.slabs.on_made = self._share
        arena.slabs.on_leaving = self._withdraw
        for process in processes:
            process.on_ready = partial(self._greet, process)
            process.on_gone = partial(self._forget, process)
            process.on_slab = partial(self._take, process)

    def _greet(self, process: Supervisor) -> None:
        """Send all slabs to a process that has just become ready."""
        for slab in self._arena.shared:
            self._send(process, slab)
        self._on_ready()

    def _share(self, slab: Slab) -> None:
        for process in self._sent:
            self._send(process, slab)

    def _send(self, process: Supervisor, slab: Slab) -> None:
        if process.ready:
            self._sent[process][slab.id] = asyncio.get_running_loop().create_future()
            message = {"type": "slab", "slab": slab.id, "size_bytes": slab.size_bytes}
            process.send(message, files=(slab.fd,))

    def _forget(self, process: Supervisor) -> None:
        """A process is gone, and what it had mapped and locked with it."""
        for slab_id in tuple(self._sent[process]):
            self._let_go(process, slab_id)
        if process is self._engine:
            for slab in self._arena.shared:
                slab.locked = False

    async def _withdraw(self, slab: Slab) -> None:
        """Return when every process has said that it let go of the slab, or is gone."""
        for process, sent in self._sent.items():
            if (gone := sent.get(slab.id)) is not None:
                process.send({"type": "drop", "slab": slab.id})
                await asyncio.shield(gone)

    def _take(self, process: Supervisor, kind: str, slab_id: int) -> None:
        if kind == "dropped":
            self._let_go(process, slab_id)
            return
        for slab in self._arena.shared:
            if slab.id == slab_id:
                slab.locked = True

    def _let_go(self, process: Supervisor, slab_id: int) -> None:
        gone = self._sent[process].pop(slab_id, None)
        if gone is not None:
            gone.set_result(None)
