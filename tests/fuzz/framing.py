"""Where requests begin and end on a connection, by RFC 9112 and no more: the fuzzer's own reading.

Nothing but what decides a request's length is looked at, and what is ambiguous ends the reading: a
server may answer less than what is found here, and never more.
"""

import re

_LINE = re.compile(rb"[!-~]+ +[!-~\x80-\xff]+ +HTTP/1\.([01])")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):([^\r\n\0]*)")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(;[^\r\n]*)?\r\n")
_ID = b"x-request-id"


def find_requests(content):
    """The ids of the requests on a connection, by its bytes."""
    found = set()
    begin = 0
    while begin is not None:
        while content[begin : begin + 1] in (b"\r", b"\n"):
            begin += 1
        end = content.find(b"\r\n\r\n", begin)
        if end < 0:
            return found
        fields = _read_head(content[begin:end])
        if fields is None:
            return found
        found |= {value.decode("latin-1") for name, value in fields if name == _ID}
        begin = _find_end(content, end + 4, fields)
    return found


def _read_head(head):
    """A head's fields; None where it is no head."""
    first, *lines = head.split(b"\r\n")
    if not (line := _LINE.fullmatch(first)):
        return None
    matches = [_FIELD.fullmatch(line) for line in lines]
    fields = [(match[1].lower(), match[2].strip(b" \t")) for match in matches if match is not None]
    if len(fields) < len(lines):
        return None
    if line[1] == b"0":
        fields.append((b"connection", b"close"))
    return fields


def _find_end(content, begin, fields):
    """Where the next request begins; None where none can."""
    values = {}
    for name, value in fields:
        values.setdefault(name, []).append(value)
    options = b",".join(values.get(b"connection", [])).lower()
    lengths, codings = values.get(b"content-length"), values.get(b"transfer-encoding")
    if b"close" in options:  # an offer of another protocol is ignored (RFC 9110, 7.8)
        return None
    if codings:
        is_chunked = [coding.lower() for coding in codings] == [b"chunked"]
        return _skip_chunks(content, begin) if is_chunked and not lengths else None
    if not lengths:
        return begin
    return begin + int(lengths[0]) if len(lengths) == 1 and lengths[0].isdigit() else None


def _skip_chunks(content, begin):
    while chunk := _CHUNK.match(content, begin):
        begin, size = chunk.end(), int(chunk[1], 16)
        if size == 0:
            end = content.find(b"\r\n\r\n", begin - 2)
            return end + 4 if end >= 0 else None
        begin += size + 2
        if content[begin - 2 : begin] != b"\r\n":
            return None
    return None
