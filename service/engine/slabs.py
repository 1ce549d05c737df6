"""The arena's slabs, and the processes that map them and page-lock them."""

import asyncio
from collections.abc import Sequence

from wavetrim.service.engine.supervisor import Supervisor
from wavetrim.service.storage.arena.arena import Arena
from wavetrim.service.storage.arena.slab import Slab


class SharedSlabs:
    """Sends each process the arena's slabs, and notes which are page-locked.

    A process maps a slab at once; the engine page-locks it in the background, and already computes
    in it. A slab that leaves is given back when every process has let go of it, or is gone.

    Args:
        arena: Has the slabs.
        processes: Get their descriptors; the first is the engine, which page-locks them.
    """

    def __init__(self, arena: Arena, processes: Sequence[Supervisor]) -> None:
        self._arena = arena
        self._members = [_Member(arena, process) for process in processes]
        self._engine = self._members[0]
        self._engine.process.on_slab = self._take
        arena.supply.on_made = self._share
        arena.supply.on_leaving = self._withdraw

    def share_all(self, process: Supervisor) -> None:
        """Send all slabs to a process that has just become ready."""
        member = self._find(process)
        for slab in self._arena.supply.shared:
            member.share(slab)

    def forget(self, process: Supervisor) -> None:
        """A process is gone, and what it had mapped and locked with it."""
        member = self._find(process)
        member.forget()
        if member is self._engine:
            for slab in self._arena.supply.shared:
                slab.locked = False

    def _find(self, process: Supervisor) -> "_Member":
        return next(member for member in self._members if member.process is process)

    def _share(self, slab: Slab) -> None:
        for member in self._members:
            member.share(slab)

    async def _withdraw(self, slab: Slab) -> None:
        """Return when every process has said that it let go of the slab, or is gone."""
        for member in self._members:
            await member.withdraw(slab)

    def _take(self, kind: str, slab_id: int) -> None:
        if kind == "dropped":
            self._engine.let_go(slab_id)
            return
        for slab in self._arena.supply.shared:
            if slab.id == slab_id:
                slab.locked = True


class _Member:
    """One process, and the slabs that it was sent."""

    def __init__(self, arena: Arena, process: Supervisor) -> None:
        self._arena = arena
        self.process = process
        self._told: set[int] = set()
        self._leaving: dict[int, asyncio.Future[None]] = {}
        process.on_slab = lambda _kind, slab_id: self.let_go(slab_id)

    def share(self, slab: Slab) -> None:
        if self.process.ready:
            self._told.add(slab.id)
            message = {"type": "slab", "slab": slab.id, "size_bytes": slab.size_bytes}
            self.process.send(message, files=(slab.fd,))

    def forget(self) -> None:
        self._told.clear()
        for slab_id in tuple(self._leaving):
            self.let_go(slab_id)

    async def withdraw(self, slab: Slab) -> None:
        if slab.id not in self._told:
            return
        gone = self._leaving.setdefault(slab.id, asyncio.get_running_loop().create_future())
        self.process.send({"type": "drop", "slab": slab.id})
        await asyncio.shield(gone)

    def let_go(self, slab_id: int) -> None:
        self._told.discard(slab_id)
        waiting = self._leaving.pop(slab_id, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(None)
