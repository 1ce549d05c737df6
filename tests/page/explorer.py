"""The wave explorer as tests read and change it."""

import json
from urllib.parse import parse_qs, urlsplit

from docs.explorer_page import PAGE

FILE = PAGE.as_uri()

SPLIT = "#m=4096&n=4096&k=4096&dtype=float64&memory=pinned&device=T4&threads=2"
MEASURED = "#m=4096&n=4096&k=4096&dtype=float32&memory=pageable&device=host-h100&sms=8"
"""The addresses of a product that is split, and of one that was measured."""

BY_ROWS = "#m=16384&n=16384&k=16384&dtype=float32&memory=pinned&device=H200&threads=16"
BY_COLUMNS = "#m=1024&n=30000&k=8192&dtype=float32&memory=pinned&device=T4&threads=16&gpus=4"
"""Those of products of several GPUs, if `gpus` is added to the first."""

AREAS = """[...document.querySelectorAll('#map path[fill^=rgb]')].map((path) => {
    const numbers = path.getAttribute('d').match(/[MHVL][^MHVLZ]*/g);
    let x = 0, y = 0, sum = 0, first = null;
    for (const part of numbers) {
        const [a, b] = part.slice(1).trim().split(' ').map(Number);
        const [u, v] = part[0] === 'M' ? [a, b] : part[0] === 'H' ? [a, y] : [x, a];
        if (first === null) first = [u, v]; else sum += x * v - u * y;
        [x, y] = [u, v];
    }
    const area = Math.abs(sum + x * first[1] - first[0] * y) / 2;
    return [path.querySelector('title').textContent.split(',')[0], area];
})"""
"""Name and area of each wave that is drawn."""


def read_shown(page):
    """F, waves and seconds of the plan that is drawn."""
    shown = page.run("({ ...document.documentElement.dataset })")
    return {name: float(shown[name]) for name in ("f", "waves", "seconds")}


def change(field, value):
    """A script that fills in a field as a user does."""
    found = f"document.getElementById({json.dumps(field)})"
    return f"{found}.value = {json.dumps(value)}; {found}.dispatchEvent(new Event('change'))"


def find_invalid(page):
    return page.run("[...document.querySelectorAll('[aria-invalid=true]')].map((one) => one.id)")


def move(f):
    """A script that moves the slider as a user does who has not released it."""
    slider = "document.getElementById('f')"
    return f"{{ {slider}.value = {f}; {slider}.dispatchEvent(new Event('input')) }}"


def list_queries(page, path):
    """The queries that the page has asked for at a path."""
    asked = map(urlsplit, page.requests)
    return [parse_qs(one.query) for one in asked if one.path == path]
