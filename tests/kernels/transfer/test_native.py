"""The C of transfers compiles without warnings, and passes the sanitizers."""

from pathlib import Path

import pytest

from tests.native.c_library import compile_c, list_flags, run_sanitized, skip_without
from wavetrim.kernels.transfer.host_library import HOST_LIBRARY
from wavetrim.native.library import FLAGS

TESTS = Path(__file__).parent


@pytest.mark.needs("cc")
def test_the_library_compiles_without_warnings(tmp_path: Path) -> None:
    flags = (*FLAGS, "-Werror", "-shared", "-fPIC")
    compile_c(tmp_path / "host.so", *flags, *HOST_LIBRARY.sources, *HOST_LIBRARY.links)


@pytest.mark.needs("cc")
@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_threads_that_share_teams_and_stages_pass_the_sanitizer(
    tmp_path: Path, sanitizer: str
) -> None:
    skip_without(sanitizer, tmp_path)
    driver = tmp_path / "libcuda.so.1"
    named = ("-fvisibility=default", "-Wl,-soname,libcuda.so.1", "-shared", "-fPIC")
    compile_c(driver, *list_flags(sanitizer), *named, TESTS / "lazy_driver.c")
    sources = (TESTS / "race_check.c", *HOST_LIBRARY.sources)
    run_sanitized(sanitizer, tmp_path, *sources, driver, *HOST_LIBRARY.links)
