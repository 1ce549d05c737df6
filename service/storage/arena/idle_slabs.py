"""Idle slabs: those that were unused for long enough to be given back."""

from collections.abc import Iterable, Sequence

from wavetrim.service.storage.arena.slab import Slab


class IdleSlabs:
    """Remembers since when slabs are unused.

    Args:
        idle_seconds: How long an unused slab is kept.
        usual_bytes: Size of a slab that is not made for one large extent.
    """

    def __init__(self, idle_seconds: float, *, usual_bytes: int) -> None:
        self._idle_seconds = idle_seconds
        self._usual_bytes = usual_bytes
        self._seen: dict[int, tuple[int, float]] = {}

    def find_idle(self, unused: Sequence[Slab], now: float) -> list[Slab]:
        """Which of the slabs that are unused now have been so for `idle_seconds`.

        To be called regularly. The time of a slab that was used between two calls begins anew.
        """
        before, self._seen = self._seen, {}
        for slab in unused:
            uses, since = before.get(slab.id, (slab.uses, now))
            self._seen[slab.id] = (slab.uses, since if uses == slab.uses else now)
        return [slab for slab in unused if now - self._seen[slab.id][1] >= self._idle_seconds]

    def is_dispensable(self, slab: Slab, unused: Iterable[Slab], free_bytes: int) -> bool:
        """Whether a usual slab stays free without this one; one for a large extent is never kept.

        Args:
            slab: An unused slab.
            unused: All unused slabs, without those that are leaving.
            free_bytes: Free bytes of all slabs.
        """
        if slab.size_bytes > self._usual_bytes:
            return True
        own_bytes = sum(each.size_bytes for each in unused if each.size_bytes > self._usual_bytes)
        return free_bytes - own_bytes - slab.size_bytes >= self._usual_bytes
