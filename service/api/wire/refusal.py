"""Refusals that no application sends: of a head that is not taken, or of a connection."""

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from wavetrim.service.api.problems import describe_error


def format_refusal(error: Exception) -> bytes:
    """A whole answer: the problem document of an error, and the news that the connection ends."""
    answer = describe_error(error)
    headers = [*answer.raw_headers, (b"connection", b"close")]
    fields = b"".join(b"%b: %b\r\n" % field for field in headers)
    return b"%b%b\r\n%b" % (STATUS_LINE[answer.status_code], fields, bytes(answer.body))
