"""Answers on a connection, read strictly: what is no well-formed HTTP/1.1 answer is a fault."""

import re
from dataclasses import dataclass

from tests.fuzz.fault import Fault

FINE_5XX = frozenset({503, 507})
"""Too much at once, and no room: the only answers of the kind 5xx that may come."""

_STATUS = re.compile(rb"HTTP/1\.1 ([1-5]\d\d) [ -~]*\Z")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+): ?([\t -~\x80-\xff]*)\Z")
_WITHOUT_BODY = frozenset({204, 304})


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer, never an interim one; names of its fields are in lower case."""

    status: int
    fields: dict[bytes, bytes]
    body: bytes

    @property
    def request(self):
        """The id of the request that it answers; empty where it has none."""
        return self.fields.get(b"x-request-id", b"").decode("latin-1")

    @property
    def closes(self):
        """Whether the connection ends behind it, as it says."""
        return self.fields.get(b"connection", b"").lower() == b"close"


def split_answers(content, is_head):
    """The answers of a connection without interim ones, and the bytes of one that was broken off.

    `is_head` tells whether the request of an id was HEAD, so that its answer has no body.
    """
    answers = []
    begin = 0
    while begin < len(content):
        end = content.find(b"\r\n\r\n", begin)
        if end < 0:
            _check_begin(content[begin:])
            break
        status, fields = _read_head(content[begin:end])
        if status == 100:
            begin = end + 4
            continue
        answer = Answer(status, fields, b"")
        length = 0 if is_head(answer.request) else _find_length(answer)
        if end + 4 + length > len(content):
            break
        begin = end + 4 + length
        answers.append(Answer(status, fields, content[end + 4 : begin]))
    return answers, content[begin:]


def _read_head(head):
    first, *lines = head.split(b"\r\n")
    found = _STATUS.match(first)
    if found is None:
        raise Fault(f"no status line: {first[:200]!r}")
    status = int(found[1])
    if status >= 500 and status not in FINE_5XX:
        raise Fault(f"an answer with status {status}: {head[:500]!r}")
    fields = {}
    for line in lines:
        field = _FIELD.match(line)
        if field is None:
            raise Fault(f"no header field: {line[:200]!r}")
        name = field[1].lower()
        if name in fields and name in (b"content-length", b"x-request-id", b"connection"):
            raise Fault(f"a second {name!r} in {head[:500]!r}")
        fields[name] = field[2]
    return status, fields


def _find_length(answer):
    if answer.status in _WITHOUT_BODY:
        return 0
    length = answer.fields.get(b"content-length", b"")
    if not length.isdigit():
        raise Fault(f"an answer without a length: {answer}")
    return int(length)


def _check_begin(begin):
    """A head that was broken off must begin as one, all the same."""
    first = begin.partition(b"\r\n")[0]
    whole = b"\r\n" in begin
    if not (_STATUS.match(first) if whole else b"HTTP/1.1 ".startswith(first[:9])):
        raise Fault(f"no status line: {first[:200]!r}")
