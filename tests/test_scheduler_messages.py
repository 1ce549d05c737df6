"""The messages between service and engine."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavetrim.scheduler.messages import (
    MessageError,
    Operand,
    RunRequest,
    decode_message,
    encode_message,
)
from wavetrim.scheduler.wishes import ACCURACIES, Wishes

sizes = st.integers(1, 2**40)
operands = st.builds(
    Operand, path=st.text(min_size=1), offset_bytes=sizes, rows=sizes, columns=sizes,
    dtype=st.sampled_from(["float32", "int64"]), fortran_order=st.booleans(),
)  # fmt: skip
finite = st.floats(allow_nan=False, allow_infinity=False)
wishes = st.builds(
    Wishes, kernel=st.text(), tile=st.none() | st.text(), f=st.just("auto") | sizes,
    accuracy=st.none() | st.sampled_from(ACCURACIES), sms=st.none() | sizes,
)  # fmt: skip
requests = st.builds(
    RunRequest, job=st.text(), a=operands, b=operands, c=st.none() | operands, out=operands,
    alpha=finite, beta=finite, wishes=wishes, verify=st.booleans(), cpu_only=st.booleans(),
)  # fmt: skip


@given(requests)
def test_a_run_request_arrives_as_it_was_sent(request_):
    line = encode_message(request_.as_message())
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert RunRequest.from_message(decode_message(line)) == request_


@given(requests)
def test_a_message_is_flat(request_):
    message = request_.as_message()
    assert "wishes" not in message
    assert message["sms"] == request_.wishes.sms


def test_figures_without_a_word_in_json_become_null():
    message = {"type": "x", "list": [1.5, math.nan, {"deep": -math.inf}], "inf": math.inf}
    assert json.loads(encode_message(message)) == {
        "type": "x", "list": [1.5, None, {"deep": None}], "inf": None,
    }  # fmt: skip


@pytest.mark.parametrize("line", [b"", b"\n", b"{", b"[]", b"{}", b'{"type": 1}', b"\xff\n", b"1"])
def test_what_is_no_message_is_refused(line):
    with pytest.raises(MessageError):
        decode_message(line)


@pytest.mark.parametrize("order", ["C", "F"])
def test_an_operand_maps_the_elements_of_its_file(tmp_path, order):
    array = np.asarray(np.arange(12.0).reshape(3, 4), order=order)
    path = tmp_path / "a.npy"
    np.save(path, array)
    offset = path.stat().st_size - array.nbytes
    mapped = Operand(str(path), offset, 3, 4, "float64", order == "F").map()
    assert np.array_equal(mapped, array)
    assert not mapped.flags.writeable


def test_a_link_is_not_followed(tmp_path):
    np.save(tmp_path / "a.npy", np.ones((3, 4)))
    (tmp_path / "link.npy").symlink_to(tmp_path / "a.npy")
    with pytest.raises(OSError, match="symbolic links"):
        Operand(str(tmp_path / "link.npy"), 128, 3, 4, "float64").map()


def test_a_file_that_is_too_short_is_not_mapped(tmp_path):
    path = tmp_path / "short"
    path.write_bytes(bytes(100))
    with pytest.raises(ValueError, match="mmap length"):
        Operand(str(path), 0, 10, 10, "float64").map()
