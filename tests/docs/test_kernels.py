"""docs/kernels.md shows the measured figures."""

from benchmarks.kernels.tables import PAGE, SECTIONS
from tests.benchmarks.kernel_figures import invent_results
from wavetrim.kernels.catalog import list_kernels

INVENTED = invent_results()


def read_table(text: str, first: str) -> list[str]:
    """The cells of the first line that begins with a cell."""
    line = next(line for line in text.splitlines() if line.startswith(f"| {first} |"))
    return line.strip("| ").split(" | ")


def test_the_page_describes_every_kernel() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for spec in list_kernels():
        assert f"\n**{spec.name}** " in page


def test_tables_show_rates_ratios_means_budgets_and_clocks() -> None:
    shown = {name: render(INVENTED) for name, render in SECTIONS.items()}
    assert read_table(shown["speed"], "bulk")[3:] == ["100.0"] * 5 + ["200%"]
    assert read_table(shown["suite"], "8192×512×4096")[1] == "50.0"
    assert read_table(shown["suite"], "4224³")[1] == "50.0"
    assert read_table(shown["means"], "bulk 128x256x16")[2:] == [
        "strict", *["2.00"] * 5, "0.50", "no: 16 of 16",
    ]  # fmt: skip
    assert read_table(shown["means"], "best strict entry")[3:8] == ["2.00"] * 5
    held = read_table(shown["budgets"], "bulk 128x256x16")[2:]
    assert held == ["100.0", "0.90 (0.81)", "1.00 (1.00)"]
    assert read_table(shown["power"], "bulk 128x256x16")[2:] == ["1700", "650"] * 3
    assert read_table(shown["choices"], "4096³")[3:] == ["128x256x16: 1.37", "", "128x256x16: 1.37"]
