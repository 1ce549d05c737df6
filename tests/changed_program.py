"""`wavetrim` with constants of the service changed: what nobody sets, and a test needs smaller.

WAVETRIM_TEST_CONSTANTS says which, as a JSON object: `{"housekeeping.MAX_FINISHED_JOBS": 60}`. Where
the value is an object, the name is one of a function or a class, which gets these arguments:
`{"parts.Arena": {"poison": true}}`.
"""

import importlib
import json
import os
import runpy
import sys
from collections.abc import Mapping
from functools import partial
from typing import Any

VARIABLE = "WAVETRIM_TEST_CONSTANTS"


def describe_constants(constants: Mapping[str, Any]) -> dict[str, str]:
    """The variables for a program whose constants are changed: module and name, value."""
    return {VARIABLE: json.dumps(constants)} if constants else {}


def name_program(environment: Mapping[str, str]) -> str:
    """The module to run for `wavetrim`: this one, if constants are changed."""
    return __name__ if VARIABLE in environment else "wavetrim"


def change_constants() -> None:
    """Change them in their modules, and in all that have imported them."""
    for place, value in json.loads(os.environ[VARIABLE]).items():
        module, _, name = place.rpartition(".")
        before = getattr(importlib.import_module(f"wavetrim.service.{module}"), name)
        changed = partial(before, **value) if isinstance(value, dict) else value
        for importer, loaded in list(sys.modules.items()):
            if importer.startswith("wavetrim.") and vars(loaded).get(name) is before:
                setattr(loaded, name, changed)


if __name__ == "__main__":
    change_constants()
    runpy.run_module("wavetrim", run_name="__main__", alter_sys=True)
