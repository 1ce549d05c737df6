"""Which slabs were unused for long enough to be given back (pure)."""

from collections.abc import Iterable, Sequence

from wavetrim.service.storage.arena.slab import Slab


class IdleSlabs:
    """Remembers since when slabs are unused.

    Args:
        idle_seconds: How long a slab is kept that nobody uses.
        usual_bytes: Size of a slab that is not made for one large extent.
    """

    def __init__(self, idle_seconds: float, *, usual_bytes: int) -> None:
        self._idle_seconds = idle_seconds
        self._usual_bytes = usual_bytes
        self._seen: dict[int, tuple[int, float]] = {}

    def find_idle(self, unused: Sequence[Slab], now: float) -> list[Slab]:
        """Those that nobody has used for so long, of those that are unused now.

        To be called every now and then: one that was used between two calls begins anew.
        """
        before, self._seen = self._seen, {}
        for slab in unused:
            uses, since = before.get(slab.id, (slab.uses, now))
            self._seen[slab.id] = (slab.uses, since if uses == slab.uses else now)
        return [slab for slab in unused if now - self._seen[slab.id][1] >= self._idle_seconds]

    def is_dispensable(self, slab: Slab, unused: Iterable[Slab], free_bytes: int) -> bool:
        """Whether a slab is more than one ahead of use; one for a single extent always is.

        Args:
            slab: One that is unused.
            unused: All those, without any that is leaving.
            free_bytes: What is free in all slabs.
        """
        if slab.size_bytes > self._usual_bytes:
            return True
        own_bytes = sum(each.size_bytes for each in unused if each.size_bytes > self._usual_bytes)
        return free_bytes - own_bytes - slab.size_bytes >= self._usual_bytes
