"""All faults, by name."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from tests.faults.callers import BadCallers
from tests.faults.databases import LockedDatabase, RestartedDatabase, RestoredDatabase
from tests.faults.fault import Fault
from tests.faults.files import CHANGES, ChangedFiles
from tests.faults.limits import FewDescriptors, FullArena, FullDisk, FullSharedMemory, SmallGroup
from tests.faults.signals import EngineHangs, Signals

Make = Callable[[], Fault]

SIGNALS: Final[dict[str, Make]] = {
    "kill-engine": partial(Signals, "engine", stops=False, kills=True),
    "kill-service": partial(Signals, "service", stops=False, kills=True),
    "kill-both": partial(Signals, "engine", "service", stops=False, kills=True),
    "stop-engine": partial(Signals, "engine", stops=True, kills=False),
    "stop-service": partial(Signals, "service", stops=True, kills=False),
    "stop-both": partial(Signals, "engine", "service", stops=True, kills=False),
    "stop-kill-engine": partial(Signals, "engine", stops=True, kills=True),
    "stop-kill-both": partial(Signals, "engine", "service", stops=True, kills=True),
}
"""Those that are tried most often."""

PLAIN: Final[dict[str, Make]] = {
    "database-locked": partial(LockedDatabase, 1),
    "database-restored": RestoredDatabase,
    **{f"file-{how.replace(' ', '-')}": partial(ChangedFiles, how) for how in CHANGES},
    "bad-callers": BadCallers,
}
"""Others that any service may be put through."""

MAPPED: Final[dict[str, Make]] = {
    f"mapped-file-{how.replace(' ', '-')}": partial(ChangedFiles, how, mapped=True)
    for how in CHANGES
}
"""Those of a service whose engine reads files itself."""

OWN: Final[dict[str, type[Fault]]] = {
    "disk-full": FullDisk,
    "arena-full": FullArena,
    "shared-memory-full": FullSharedMemory,
    "few-descriptors": FewDescriptors,
    "small-group": SmallGroup,
    "database-restarted": RestartedDatabase,
}
"""Those that need a service of their own."""

SLOW: Final[dict[str, Make]] = {
    "engine-hangs": EngineHangs,
    "database-locked-long": partial(LockedDatabase, 22),
}
"""Those that take half a minute a time."""

FAULTS: Final[Mapping[str, Make]] = {**SIGNALS, **PLAIN, **MAPPED, **OWN, **SLOW}
