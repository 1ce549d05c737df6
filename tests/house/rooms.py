"""Counts the lines of each room: what a reader would have to read."""

import os
from collections import Counter
from pathlib import Path

from tests.environment import ROOT

_CODE = {".py", ".c", ".h", ".cu", ".cuh", ".js", ".css"}
_PASSED = {"__pycache__", "vendor", "dist", "build", "node_modules"}
"""Folders that are nobody's to read."""

_ROOMS = {"cpu": "cpu, native", "native": "cpu, native"}
_LONG = 200
_PIECE = 100
"""A line of more characters than `_LONG` counts as so many of `_PIECE`."""


def count_rooms():
    """Lines of code by room, without what is vendored or generated."""
    lines = Counter()
    for folder, below, names in os.walk(ROOT):
        below[:] = [name for name in below if name not in _PASSED and not name.startswith(".")]
        for name in names:
            path = Path(folder, name).relative_to(ROOT)
            if path.suffix in _CODE and len(path.parts) > 1:
                lines[find_room(path)] += count_lines(ROOT / path)
    return dict(sorted(lines.items()))


def find_room(path):
    """The room of a file: its top folder, but that the page is a room in the service."""
    top = path.parts[0]
    if path.parts[:2] == ("service", "page"):
        return "page"
    return _ROOMS.get(top, top)


def count_lines(path):
    """Lines of a file: 0 of a link, or if its first line says that a script has written it."""
    if path.is_symlink():
        return 0
    lines = path.read_text(encoding="utf-8").splitlines()
    if lines and "written by docs/" in lines[0]:
        return 0
    return sum(-(-len(line) // _PIECE) if len(line) > _LONG else 1 for line in lines)
