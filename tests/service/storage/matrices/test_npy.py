"""The .npy reader against NumPy's own writer, and against damage."""

import io
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.targets import check_npy
from wavetrim.service.storage.errors import DtypeRefused, NpyError
from wavetrim.service.storage.matrices.npy import (
    DTYPES,
    LARGE_BYTES,
    MAX_HEADER_BYTES,
    Layout,
    parse_header,
)

VERSIONS = ((1, 0), (2, 0), (3, 0))
CANONICAL = b"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n"

headers = st.builds(
    Layout,
    rows=st.integers(1, 10**9),
    columns=st.integers(1, 10**9),
    dtype=st.sampled_from(sorted(DTYPES.values())),
    fortran_order=st.booleans(),
    offset_bytes=st.just(128),
    stack=st.none() | st.integers(0, 10**7),
)


def write_npy(array, version=(1, 0)):
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, version=version)
    return buffer.getvalue()


def wrap_header(text, version=(1, 0)):
    length = len(text).to_bytes(2 if version == (1, 0) else 4, "little")
    return b"\x93NUMPY" + bytes(version) + length + text


@given(
    version=st.sampled_from(VERSIONS),
    dtype=st.sampled_from(sorted(DTYPES.values())),
    rows=st.integers(1, 40),
    columns=st.integers(1, 40),
    order=st.sampled_from("CF"),
)
def test_parse_header_reads_what_numpy_writes_in_every_version(
    version, dtype, rows, columns, order
):
    file = write_npy(np.zeros((rows, columns), dtype, order=order), version)
    header = parse_header(file)
    assert (header.rows, header.columns, header.dtype) == (rows, columns, dtype)
    # An array with one row or one column has both orders, and NumPy writes it as C.
    assert header.fortran_order == (order == "F" and min(rows, columns) > 1)
    assert header.file_bytes == len(file)


@given(headers, st.booleans())
def test_format_header_writes_what_numpy_and_parse_header_read(header, stored):
    raw = header.format_header(stored=stored)
    assert parse_header(raw) == replace(header, offset_bytes=len(raw))
    stream = io.BytesIO(raw)
    assert np.lib.format.read_magic(stream) == (1, 0)
    shape, fortran_order, dtype = np.lib.format.read_array_header_1_0(stream)
    assert (shape, fortran_order, dtype.name) == (
        header.shape,
        header.fortran_order,
        "void16" if header.dtype == "bfloat16" else header.dtype,
    )
    assert len(raw) == (4096 if stored and header.data_bytes >= LARGE_BYTES else 128)


DAMAGED = st.builds(
    lambda file, damage: bytes(damage.get(place, byte) for place, byte in enumerate(file[:128])),
    st.sampled_from([write_npy(np.zeros((3, 4)), version) for version in VERSIONS]),
    st.dictionaries(st.integers(0, 127), st.integers(0, 255), min_size=1, max_size=6),
)
WRAPPED = st.builds(
    wrap_header,
    st.binary(max_size=300) | st.text("{}[]()'\",: \nTrueFalsdcp_o<f48123-").map(str.encode),
    st.sampled_from(VERSIONS),
)


@settings(max_examples=300)
@given(DAMAGED | WRAPPED)
def test_whatever_comes_gives_a_header_or_an_npy_error(file):
    """What is taken NumPy takes for the same; one whose last byte is missing asks for more."""
    check_npy(file)


def test_a_header_of_a_huge_matrix_allocates_nothing():
    size = 10**16
    raw = wrap_header(b"{'descr': '<f8', 'fortran_order': False, 'shape': (%d, %d)}\n" % (size, 9))
    tracemalloc.start()
    header = parse_header(raw)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert header.data_bytes == size * 9 * 8
    assert peak < 100_000


def test_a_header_longer_than_the_limit_is_refused_before_it_arrives():
    prefix = b"\x93NUMPY\x02\x00" + (2**32 - 1).to_bytes(4, "little")
    with pytest.raises(NpyError, match=f"header length is 4294967295.*{MAX_HEADER_BYTES}"):
        parse_header(prefix)


@pytest.mark.parametrize("repeated", [b"[", b"(", b" ", b"-", b"'a':(1,),", b"]", b"9", b"\\"])
def test_the_longest_header_is_refused_quickly(repeated):
    text = (b"{" + repeated * MAX_HEADER_BYTES)[: MAX_HEADER_BYTES - 2] + b"}\n"
    with pytest.raises(NpyError):
        parse_header(wrap_header(text, (2, 0)))


@pytest.mark.parametrize(
    "descr",
    [
        *("'>f4'", "'|O'", "'>c8'", "'|V4'", "'|b1'", "'<M8[s]'", "'<U4'"),
        *("[('x', '<f4')]", "[('x', '|i1'), ('y', '|i1')]"),
    ],
)
def test_other_elements_are_refused_with_descr_and_the_list(descr):
    raw = wrap_header(CANONICAL.replace(b"'<f4'", descr.encode()))
    with pytest.raises(DtypeRefused, match=r"descr is .*one of <f2, <V2, ") as refusal:
        parse_header(raw)
    assert refusal.value.value == descr.strip("'")


OTHER_SHAPES = {
    "()": "of 2 dimensions, or of 3 for a stack; it has 0",
    "(4,)": "of 2 dimensions, or of 3 for a stack; it has 1",
    "(2, 3, 4, 5)": "of 2 dimensions, or of 3 for a stack; it has 4",
    f"({10**9}, {10**9}, 0)": "at most",
    "(3, -1)": "sizes from 0",
    f"(1, {10**17})": "sizes from 0",
    f"(0, {10**17})": "sizes from 0",  # NumPy has none, either
    "(True, 3)": "sizes from 0",
}


@pytest.mark.parametrize("shape", OTHER_SHAPES)
def test_other_shapes_are_refused(shape):
    with pytest.raises(NpyError, match="shape is") as refusal:
        parse_header(wrap_header(CANONICAL.replace(b"(2, 3)", shape.encode())))
    assert refusal.value.limit.startswith(OTHER_SHAPES[shape])


@pytest.mark.parametrize(
    ("part", "other"),
    [
        (b"'shape'", b"'form'"), (b"'shape': (2, 3), ", b""), (b", }", b", 'more': True}"),
        (b"False", b"0"), (b"False", b"__import__('os')"), (b"\n", b"\nx\n"), (b", ", b",\x0b"),
        (b"(2, 3)", b"(4)"), (b"(2, 3)", b"(1, 2 3)"), (b"(2, 3)", b"(02, 3)"),
        (b"(2, 3)", b"(2,)3"), (CANONICAL, b"\n"), (CANONICAL, b""),
    ],
)  # fmt: skip
def test_other_headers_are_refused(part, other):
    with pytest.raises(NpyError):
        parse_header(wrap_header(CANONICAL.replace(part, other)))


@pytest.mark.filterwarnings("ignore:Reading")  # about Python 2's headers
@pytest.mark.parametrize(
    "text",
    [
        CANONICAL.rstrip(b"\n"),
        b"  " + CANONICAL,
        CANONICAL.replace(b"(2, 3)", b"(2L, 3L)"),  # of Python 2
        CANONICAL.replace(b"'descr'", b"u'descr'").replace(b"'<f4'", b'u"<f4"'),
        *(CANONICAL.replace(b"<f4", name) for name in (b"f4", b"=f4", b"float32", b"single")),
    ],
)
def test_a_header_that_numpy_reads_is_read(text):
    file = wrap_header(text, (1, 0)) + bytes(24)
    assert np.lib.format.read_array(io.BytesIO(file)).shape == (2, 3)
    header = parse_header(file)
    assert (header.rows, header.columns, header.dtype) == (2, 3, "float32")


KINDS = {
    "zip": b"PK\3\4", "gzip": b"\x1f\x8b\x08", "HDF5": b"\x89HDF\r\n\x1a\n",
    "pickle": b"\x80\4\x95", "text": b"1.0,2.0\n3.0,4.0\n", "JSON": b'{"a": 1}',
    "unknown": b"\0\1\2",
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_of_another_kind_is_named(kind):
    with pytest.raises(NpyError, match=f"format is '{kind}'") as refused:
        parse_header(KINDS[kind])
    assert "as numpy.save writes it" in refused.value.limit


def test_unknown_versions_are_refused():
    with pytest.raises(NpyError, match=r"version is '4.0'; it must be 1.0, 2.0 or 3.0"):
        parse_header(b"\x93NUMPY\x04\x00")
