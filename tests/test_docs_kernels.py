from benchmarks.kernel_tables import PAGE, fill_page
from kernels.catalog import list_kernels


def test_the_page_shows_the_figures_that_were_measured() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert fill_page(page) == page


def test_the_page_tells_what_every_kernel_does() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for spec in list_kernels():
        assert f"\n**{spec.name}** " in page
