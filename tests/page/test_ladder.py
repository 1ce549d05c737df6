"""The page's ladder: kernels with their sources, on the roofline, and probes."""

import json

import pytest

from benchmarks.common.tables import RESULTS
from benchmarks.kernels.rows import read_kernel_results
from docs.ladder_tables import PLOTS
from tests.browsers import count, go, read, read_all, show
from wavetrim.kernels.catalog import list_kernels
from wavetrim.kernels.compile import KERNEL_SOURCES


def list_rungs():
    """Each kernel and type, with its measured rows."""
    (results,) = [one for one in read_kernel_results(RESULTS) if one.gpu == "h200"]
    rungs = {}
    for row in results.rows:
        rungs.setdefault((row.kernel, row.dtype), []).append(row)
    return rungs.items()


def test_every_kernel_is_shown_with_its_source_and_rates(page, shared_server):
    show(page, f"{shared_server.url}/#view=ladder")
    for (kernel, dtype), rows in list_rungs():
        show(page, f"{shared_server.url}/#view=ladder&rung={kernel}.{dtype}")
        shapes = {(row.m, row.n, row.k) for row in rows}
        titles = page.run("[...document.querySelectorAll('#rung circle[r=\"5\"] title')]"
                          ".map((one) => one.textContent)")  # fmt: skip
        assert len(titles) == len(shapes), kernel
        fastest = max(row.tflops for row in rows if row.m == row.n == row.k == 4096)
        assert any(f"4,096 × 4,096 × 4,096: {fastest:.3g} TFLOP/s" in one for one in titles)
        pressed = read(page, ".rungs [aria-pressed=true]")
        assert f"{fastest:.3g} TFLOP/s" in pressed
        sources = {one.source for one in list_kernels() if (one.name, one.dtype) == (kernel, dtype)}
        shown = page.run("document.querySelector('.source code')?.textContent ?? null")
        if sources == {None}:
            assert shown is None
        else:
            (source,) = sources
            assert shown == (KERNEL_SOURCES / str(source)).read_text(encoding="utf-8")
    assert page.problems == []


def place(page, selector):
    return page.run(
        f"(({{ x, y, width, height }}) => ({{ x, y, width, height }}))"
        f"(document.querySelector({json.dumps(selector)}).getBoundingClientRect())"
    )


def test_a_kernel_is_chosen_by_a_click_and_back_undoes_it(page, shared_server):
    show(page, f"{shared_server.url}/#view=ladder")
    title = "document.getElementById('rung-title').textContent"
    assert page.run(title) == "bulk, float32"
    go(page, "document.querySelector('.rungs button').click()")
    assert page.run(title) == "naive, float32"
    kind = "document.getElementById('ladder-type')"
    go(page, f"{kind}.value = 'float64'; {kind}.dispatchEvent(new Event('change'))")
    assert page.run(title) == "naive, float64"
    go(page, "history.back()")
    assert page.run(title) == "naive, float32"
    source, roofline = place(page, ".source"), place(page, "#rung svg")
    assert source["x"] > roofline["x"] + roofline["width"]  # to its right, not below


@pytest.mark.parametrize("name", sorted({plot.probe for plot in PLOTS}))
def test_every_probe_is_drawn(page, shared_server, name):
    show(page, f"{shared_server.url}/#view=ladder&probe={name}")
    plots = [plot for plot in PLOTS if plot.probe == name]
    assert count(page, "#probe-shown svg[role=img]") == len(plots)
    assert page.run("document.querySelector('#probe-shown .lesson').textContent.length") > 40
    texts = read_all(page, "#probe-shown svg text")
    assert not {"NaN", "undefined", "Infinity"} & set(texts)
    paths = page.run("[...document.querySelectorAll('#probe-shown path')]"
                     ".map((one) => one.getAttribute('d'))")  # fmt: skip
    assert paths
    assert not any("NaN" in path or "Infinity" in path for path in paths)
