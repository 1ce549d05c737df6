"""The C of transfers compiles without warnings, and passes the sanitizers."""

import logging
from pathlib import Path

import pytest

from tests.native.c_library import compile_c, list_flags, run_sanitized, skip_without
from wavetrim.kernels.transfer.host_library import HOST_LIBRARY, open_copiers
from wavetrim.native.errors import CompilationFailed
from wavetrim.native.library import FLAGS, compile_library

TESTS = Path(__file__).parent


@pytest.mark.needs("cc")
def test_the_library_compiles_without_warnings(tmp_path):
    flags = (*FLAGS, "-Werror", "-shared", "-fPIC")
    compile_c(tmp_path / "host.so", *flags, *HOST_LIBRARY.sources, *HOST_LIBRARY.links)


@pytest.mark.needs("cc")
@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_threads_that_share_a_pool_pass_the_sanitizer(tmp_path, sanitizer):
    skip_without(sanitizer, tmp_path)
    driver = tmp_path / "libcuda.so.1"
    named = ("-fvisibility=default", "-Wl,-soname,libcuda.so.1", "-shared", "-fPIC")
    compile_c(driver, *list_flags(sanitizer), *named, TESTS / "driver.c")
    sources = (TESTS / "race_check.c", *HOST_LIBRARY.sources)
    run_sanitized(sanitizer, tmp_path, *sources, driver, *HOST_LIBRARY.links)


def test_without_a_compiler_there_is_one_warning_and_no_pool(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("CC", str(tmp_path / "no-such-compiler"))
    with pytest.raises(CompilationFailed, match="no C compiler"):
        compile_library(HOST_LIBRARY, tmp_path)
    with caplog.at_level(logging.WARNING):
        pools = [open_copiers(2, cache_dir=tmp_path / "empty") for _ in range(3)]
    if pools[0] is not None:  # next to its source is a library compiled before
        pytest.skip("the library is compiled next to its source")
    assert pools == [None] * 3
    (warning,) = caplog.messages
    assert "CUDA itself copies pageable memory, which is slower: no C compiler" in warning
