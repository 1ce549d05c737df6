"""Content-Digest, as RFC 9530 gives it."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavetrim.service.api.wire.digests import format_digest, parse_digest
from wavetrim.service.errors import DigestMalformed

EMPTY = "sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:"


def test_the_digest_of_nothing_is_the_one_of_the_standard() -> None:
    assert parse_digest(EMPTY) == hashlib.sha256(b"").digest()
    assert format_digest(hashlib.sha256(b"").digest()) == EMPTY


@given(st.binary(min_size=32, max_size=32))
def test_a_formatted_digest_is_read_back(digest: bytes) -> None:
    assert parse_digest(format_digest(digest)) == digest


def test_other_algorithms_are_ignored() -> None:
    assert parse_digest("sha-512=:AAAA:") is None
    assert parse_digest(f"sha-512=:AAAA:, {EMPTY}") == hashlib.sha256(b"").digest()
    assert parse_digest(f"{EMPTY} , unixsum=:AA==:") == hashlib.sha256(b"").digest()


@pytest.mark.parametrize(
    "text",
    [
        "sha-256",
        "sha-256=47DEQpj8",
        "sha-256=:AAAA:",
        "sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuF:",
        "sha-256=:====:",
        f"{EMPTY} {EMPTY}",
        "SHA-256=:AAAA:",
        "=:AAAA:",
    ],
)
def test_malformed_fields_are_refused(text: str) -> None:
    with pytest.raises(DigestMalformed, match="Content-Digest is"):
        parse_digest(text)


@given(st.text("sha-256=:,A; *", max_size=40))
def test_no_text_gives_anything_but_a_digest_or_a_refusal(text: str) -> None:
    try:
        digest = parse_digest(text)
    except DigestMalformed:
        return
    assert digest is None or len(digest) == 32
