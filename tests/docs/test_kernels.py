"""docs/kernels.md describes every kernel, and shows the measured figures."""

from benchmarks.common.tables import RESULTS, SHOWN
from benchmarks.kernels.rows import read_results
from benchmarks.kernels.tables import PAGE, render_speed
from wavetrim.kernels.catalog import list_kernels


def test_the_page_describes_every_kernel() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for spec in list_kernels():
        assert f"\n**{spec.name}** " in page


def test_the_table_has_each_kernel_with_its_fastest_tile_beside_cublas() -> None:
    results = read_results(RESULTS, SHOWN)[0]
    fastest = max(
        (row for row in results.rows if (row.kernel, row.dtype) == ("bulk", "float32")
         and row.shape == (4096, 4096, 4096)),
        key=lambda row: row.tflops,
    )  # fmt: skip
    table = render_speed(results)
    assert f"| bulk | {fastest.tflops:.1f} ({fastest.ratio_to_cublas:.2f}) |" in table
    assert "| cublas | " in table.splitlines()[-1]
