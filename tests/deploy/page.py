"""docs/deploy.md: the commands of its sections."""

import re

from tests.environment import ROOT

PAGE = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")


def list_blocks(title, mark=""):
    """The shell blocks that stand below a heading and have this mark."""
    section = re.split(rf"^#+ {title}\n", PAGE, flags=re.MULTILINE)[1]
    section = re.split(r"^#+ [A-Z]", section, flags=re.MULTILINE)[0]
    blocks = re.findall(r"^```sh ?(\w*)\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    found = [text for its_mark, text in blocks if its_mark == mark]
    assert found, f"{title} has no block `sh {mark}`"
    return found
