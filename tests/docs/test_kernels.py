"""docs/kernels.md describes every kernel, and shows the measured figures."""

from benchmarks.common.plots import DOCS
from wavetrim.kernels.catalog import list_kernels


def test_the_page_describes_every_kernel() -> None:
    page = (DOCS / "kernels.md").read_text(encoding="utf-8")
    for spec in list_kernels():
        assert f"\n**{spec.name}** " in page
