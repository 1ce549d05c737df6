"""The arena's slabs and the engine: who is told of which, and what is page-locked."""

import asyncio

from wavetrim.service.engine.engine import Engine
from wavetrim.service.storage.arena.arena import Arena
from wavetrim.service.storage.arena.slab import Slab


class SharedSlabs:
    """Tells each engine process of the slabs that there are, and hears which are page-locked.

    An engine maps a slab at once and page-locks it in the background: products are computed in it
    before. A slab that leaves is given back when the engine has let go of it, or is gone.

    Args:
        arena: Has the slabs.
        engine: Gets their descriptors.
    """

    def __init__(self, arena: Arena, engine: Engine) -> None:
        self._arena = arena
        self._engine = engine
        self._told: set[int] = set()
        self._leaving: dict[int, asyncio.Future[None]] = {}
        engine.on_slab = self._take
        arena.on_slab_made = self._share
        arena.on_slab_leaving = self._withdraw

    def share_all(self) -> None:
        """Tell a process that has just become ready of all slabs."""
        for slab in self._arena.shared_slabs:
            self._share(slab)

    def forget(self) -> None:
        """The process is gone, and what it had mapped and locked with it."""
        self._told.clear()
        for slab in self._arena.shared_slabs:
            slab.locked = False
        for slab_id in tuple(self._leaving):
            self._let_go(slab_id)

    def _share(self, slab: Slab) -> None:
        if self._engine.ready:
            self._told.add(slab.id)
            message = {"type": "slab", "slab": slab.id, "size_bytes": slab.size_bytes}
            self._engine.send(message, files=(slab.fd,))

    async def _withdraw(self, slab: Slab) -> None:
        """Return when no process has the slab any more: it says so, or is gone."""
        if slab.id not in self._told:
            return
        gone = self._leaving.setdefault(slab.id, asyncio.get_running_loop().create_future())
        self._engine.send({"type": "drop", "slab": slab.id})
        await asyncio.shield(gone)

    def _take(self, kind: str, slab_id: int) -> None:
        if kind == "dropped":
            self._let_go(slab_id)
            return
        for slab in self._arena.shared_slabs:
            if slab.id == slab_id:
                slab.locked = True

    def _let_go(self, slab_id: int) -> None:
        self._told.discard(slab_id)
        waiting = self._leaving.pop(slab_id, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(None)
