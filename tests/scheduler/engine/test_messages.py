"""The messages between service and engine."""

import json
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scheduler.profiles import find_preset_profile
from wavetrim.scheduler.engine.messages import (
    PACKET_BYTES,
    MessageError,
    Operand,
    RunRequest,
    decode_message,
    encode_message,
)
from wavetrim.scheduler.options import ACCURACIES, PlanOptions
from wavetrim.scheduler.profile.store import dump_profile

sizes = st.integers(1, 2**40)
operands = st.builds(
    Operand, slab=st.text(min_size=1) | sizes, offset_bytes=sizes, rows=sizes, columns=sizes,
    dtype=st.sampled_from(["float32", "int64"]), fortran_order=st.booleans(),
    strides_bytes=st.none() | st.tuples(sizes, sizes),
)  # fmt: skip
finite = st.floats(allow_nan=False, allow_infinity=False)
options = st.builds(
    PlanOptions, kernel=st.text(), tile=st.none() | st.text(), f=st.just("auto") | sizes,
    accuracy=st.none() | st.sampled_from(ACCURACIES), sms=st.none() | sizes,
    devices=st.sampled_from([None, "none", "0,1"]),
)  # fmt: skip
requests = st.builds(
    RunRequest, job=st.text(), a=operands, b=operands, c=st.none() | operands, out=operands,
    alpha=finite, beta=finite, options=options, verify=st.booleans(), cpu_only=st.booleans(),
    reports=st.booleans(), timed=st.booleans(),
    device_set=st.none() | st.frozensets(st.integers(-1, 7)),
)  # fmt: skip


@settings(max_examples=25)
@given(requests)
def test_a_run_request_arrives_as_it_was_sent(request_):
    packet = encode_message(request_.as_message())
    assert RunRequest.from_message(decode_message(packet)) == request_


def test_numbers_that_json_lacks_become_null():
    message = {"type": "x", "list": [1.5, math.nan, {"deep": -math.inf}], "inf": math.inf}
    assert json.loads(encode_message(message)) == {
        "type": "x", "list": [1.5, None, {"deep": None}], "inf": None,
    }  # fmt: skip


def test_a_long_message_fits_a_packet():
    profile = dump_profile(find_preset_profile("H200 x16"))
    message = {"type": "joined", "profiles": [profile] * 16}
    assert len(json.dumps(message)) > PACKET_BYTES
    packet = encode_message(message)
    assert len(packet) < PACKET_BYTES / 4
    assert decode_message(packet) == json.loads(json.dumps(message))


def test_a_message_that_fits_no_packet_is_refused():
    noise = random.Random(1).randbytes(PACKET_BYTES).hex()
    with pytest.raises(MessageError, match=f"must be at most {PACKET_BYTES}"):
        encode_message({"type": "x", "text": noise + noise})


@pytest.mark.parametrize(
    "line",
    [b"x", b"x\x9cnot compressed", b"", b"\n", b"{", b"[]", b"{}", b'{"type": 1}', b"\xff\n", b"1"],
)
def test_malformed_messages_are_refused(line):
    with pytest.raises(MessageError):
        decode_message(line)
