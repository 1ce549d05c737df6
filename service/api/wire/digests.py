"""Digest fields of RFC 9530, for the one algorithm that is used here, sha-256."""

import base64
import binascii
import re
from typing import Final

from wavetrim.service.errors import DigestMalformed

_FIELD: Final = "Content-Digest"
_MEMBER: Final = re.compile(
    r"[ \t]*(?P<key>[a-z*][a-z0-9_.*-]*)=:(?P<value>[A-Za-z0-9+/=]*):[ \t]*(?:,|$)"
)


def parse_digest(text: str) -> bytes | None:
    """Reads a Content-Digest field: a dictionary (RFC 9651) of byte sequences.

    Args:
        text: The field; several fields are joined with commas.

    Returns:
        The SHA-256, or None when the field has only other algorithms: these are ignored.

    Raises:
        DigestMalformed: The field breaks the grammar, or the digest has another length.
    """
    position = 0
    digest: bytes | None = None
    while position < len(text):
        member = _MEMBER.match(text, position)
        if member is None:
            raise DigestMalformed(_FIELD, text[:200], "members such as sha-256=:<base64>:")
        if member["key"] == "sha-256":
            digest = _decode(member["value"])
        position = member.end()
    return digest


def format_digest(digest: bytes) -> str:
    """A Content-Digest field of a SHA-256."""
    return f"sha-256=:{base64.b64encode(digest).decode()}:"


def _decode(value: str) -> bytes:
    limit = "the base64 of 32 bytes"
    try:
        digest = base64.b64decode(value, validate=True)
    except binascii.Error as error:
        raise DigestMalformed(_FIELD, value[:200], limit) from error
    if len(digest) != 32:
        raise DigestMalformed(_FIELD, value[:200], limit)
    return digest
