"""Content-Digest, as RFC 9530 gives it. `tests/fuzz/targets.py` reads any text."""

import hashlib

import pytest

from wavetrim.service.api.wire.digests import format_digest, parse_digest
from wavetrim.service.errors import DigestMalformed

EMPTY = "sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:"


def test_the_digest_of_nothing_is_the_one_of_the_standard() -> None:
    assert parse_digest(EMPTY) == hashlib.sha256(b"").digest()
    assert format_digest(hashlib.sha256(b"").digest()) == EMPTY


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
