"""Tables of plans and progress bars in the terminal."""

import re
from io import StringIO

import pytest

from wavetrim.service.cli.terminal.display import open_notes, show_bytes


@pytest.mark.parametrize("name", ["[red]A.npy", "[/]A.npy", ":smile:.npy", "[bold", "A[0].npy"])
def test_a_bar_shows_a_files_name_as_it_is(name: str) -> None:
    notes = open_notes()
    notes.file = shown = StringIO()
    with show_bytes(notes) as move:
        move(f"upload {name}", 5, 10)
    assert f"upload {name} " in re.sub("\x1b[^m]*m", "", shown.getvalue())
