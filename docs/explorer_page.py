"""Writes docs/explorer.html: the wave explorer in one file, for a browser without a service.

The page's modules are joined into one script. The file's Content-Security-Policy names script and
style by their digests, so nothing else may run in it. Run `make explorer`, or
`python -m docs.explorer_page`.
"""

import base64
import hashlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from benchmarks.common.tables import ROOT

SOURCE: Final = ROOT / "service" / "page"
PAGE: Final = ROOT / "docs" / "explorer.html"

_IMPORT: Final = re.compile(r'^import \{([^}]*)\} from "([^"]+)";\n', re.MULTILINE)
_EXPORT: Final = re.compile(r"^export (?=(?:async )?(?:const|function|class) (\w+))", re.MULTILINE)
_STYLE: Final = '<link rel="stylesheet" href="page/style.css">'
_SCRIPT: Final = '<script type="module" src="page/main.js"></script>'


def main() -> None:
    """Write the page."""
    PAGE.write_text(render_page(), encoding="utf-8")


def render_page() -> str:
    """The page in one file."""
    style = (SOURCE / "style.css").read_text(encoding="utf-8")
    script = f"{join_modules([SOURCE / 'main.js'])};"
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data: blob:; "
        f"style-src '{_digest(style)}'; script-src '{_digest(script)}'"
    )
    page = (SOURCE / "index.html").read_text(encoding="utf-8")
    for old, new in (
        ("<head>", f'<head>\n<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        (_STYLE, f"<style>{style}</style>"),
        (_SCRIPT, ""),
        ("</body>", f"<script>{script}</script>\n</body>"),
        ('data-home="service" data-docs="on"', 'data-home="file"'),
    ):
        if page.count(old) != 1:
            raise ValueError(f"index.html has {old} {page.count(old)} times, expected once")
        page = page.replace(old, new)
    return page


def join_modules(entries: Iterable[Path]) -> str:
    """An expression that runs modules with all their imports; its value is their exports.

    Each module becomes a function that is called once, so that names stay apart.

    Args:
        entries: Modules that import by lines of the form `import { a, b } from "./c.js";` and
            export what they declare.

    Raises:
        ValueError: Modules import each other in a circle.
    """
    names: dict[Path, str] = {}
    texts: list[str] = []

    def add(path: Path, importers: tuple[Path, ...]) -> str:
        if path in importers:
            raise ValueError(f"{path} imports itself by way of others")
        if path not in names:
            text = path.read_text(encoding="utf-8")
            for _, target in _IMPORT.findall(text):
                add((path.parent / target).resolve(), (*importers, path))
            names[path] = f"module{len(names)}"
            texts.append(_wrap(path, text, names))
        return names[path]

    found = [add(path.resolve(), ()) for path in entries]
    merged = ", ".join(f"...{name}" for name in found)
    return f'(() => {{\n"use strict";\n{"".join(texts)}return {{ {merged} }};\n}})()'


def _wrap(path: Path, text: str, names: dict[Path, str]) -> str:
    """A module as a function that gives what it exports."""

    def bring(match: re.Match[str]) -> str:
        source = names[(path.parent / match[2]).resolve()]
        return f"const {{{match[1].replace(' as ', ': ')}}} = {source};\n"

    exported = ", ".join(_EXPORT.findall(text))
    body = _EXPORT.sub("", _IMPORT.sub(bring, text)).replace("</script", "<\\/script")
    return f"const {names[path]} = (() => {{\n{body}return {{ {exported} }};\n}})();\n"


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


if __name__ == "__main__":
    main()
