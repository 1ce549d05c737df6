"""docs/kernels.md shows the measured figures."""

from benchmarks.kernels.tables import PAGE, render_speed
from tests.benchmarks.kernel_figures import invent_results
from wavetrim.kernels.catalog import list_kernels

INVENTED = invent_results()


def read_table(text: str, first: str) -> list[str]:
    """The cells of the first line that begins with a cell."""
    line = next(line for line in text.splitlines() if line.startswith(f"| {first} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_page_describes_every_kernel() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for spec in list_kernels():
        assert f"\n**{spec.name}** " in page


def test_the_table_has_each_kernel_with_its_fastest_tile_beside_cublas() -> None:
    table = render_speed(INVENTED)
    assert read_table(table, "bulk")[1] == "100.0 (2.00)"
    assert read_table(table, "tensor")[1:] == ["200.0 (4.00)", "25.0 (0.50)", "55.0 (1.10)", ""]
    assert read_table(table, "cublas")[1] == "50.0 (1.00)"
