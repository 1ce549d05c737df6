"""`wavetrim` with constants changed: what nobody sets, and a test needs smaller.

WAVETRIM_TEST_CONSTANTS says which, as a JSON object: `{"max_bodies": 2}`. An option of the arena is
an argument of its class; the others are constants of their modules.
"""

import importlib
import json
import os
import runpy
import sys
from functools import partial

VARIABLE = "WAVETRIM_TEST_CONSTANTS"

ARENA = "parts.Arena"
PLACES = {
    "arena_idle_seconds": ARENA,
    "arena_poison": ARENA,
    "arena_slab_bytes": ARENA,
    "busy_timeout_seconds": "storage.database.database.BUSY_TIMEOUT_SECONDS",
    "database_wait_seconds": "storage.database.claim.WAIT_SECONDS",
    "head_seconds": "api.wire.refusal.HEAD_SECONDS",
    "last_answers_seconds": "server.foreground.LAST_ANSWERS_SECONDS",
    "linger_seconds": "api.wire.lingering.LINGER_SECONDS",
    "max_bodies": "tenants.tenant.BODIES",
    "max_finished_jobs": "housekeeping.MAX_FINISHED_JOBS",
    "reserve_bytes": "storage.disk.files.RESERVE_BYTES",
    "undo_seconds": ".client.wire.connection.UNDO_SECONDS",
    "upload_idle_seconds": "api.wire.body_pull.IDLE_SECONDS",
}
"""The module, from the service on, and the constant, by the name that tests use."""


def describe_constants(**constants):
    """The variables for a program whose constants are changed, by the names in `PLACES`."""
    return {VARIABLE: json.dumps(constants)} if constants else {}


def name_program(environment):
    """The module to run for `wavetrim`: this one, if constants are changed."""
    return __name__ if VARIABLE in environment else "wavetrim"


def change_constants():
    """Change them in their modules, and in all that have imported them."""
    importlib.import_module("wavetrim.service.app")  # all importers are there then
    for constant, value in json.loads(os.environ[VARIABLE]).items():
        module, _, name = PLACES[constant].rpartition(".")
        before = getattr(importlib.import_module(f".{module}", "wavetrim.service"), name)
        option = {constant.removeprefix("arena_"): value}
        changed = partial(before, **option) if PLACES[constant] == ARENA else value
        for importer, loaded in list(sys.modules.items()):
            if importer.startswith("wavetrim.") and vars(loaded).get(name) is before:
                setattr(loaded, name, changed)


if __name__ == "__main__":
    change_constants()
    runpy.run_module("wavetrim", run_name="__main__", alter_sys=True)
