"""Where a service is: an http or https address, or the path of a Unix socket."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

_LIMIT: Final = (
    "http:// or https:// and a host, perhaps a path of ASCII characters without spaces,"
    " or the path of a Unix socket (/run/wavetrim.sock)"
)
_PATH: Final = re.compile(r"[\x21-\x7e]*")
_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Address:
    """Where a service is.

    Attributes:
        url: The address for messages.
        host: Name or IP address of the machine; empty for a Unix socket.
        port: TCP port; 0 for a Unix socket.
        socket_path: Path of the Unix socket; empty for TCP.
        tls: Whether the connection is encrypted.
        prefix: Path before every route, without a slash at its end.
        authority: Value of the Host header.
    """

    url: str
    host: str
    port: int
    socket_path: str
    tls: bool
    prefix: str
    authority: str


def parse_address(url: str | os.PathLike[str]) -> Address:
    """Read "http://host:8000", "https://host/prefix", "/run/wavetrim.sock" or "unix:<path>".

    Raises:
        ValueError: It is none of these.
    """
    text = os.fspath(url)
    path = text.removeprefix("unix:")
    if path and (path != text or path.startswith(("/", "./", "../"))):
        path = str(Path(path).absolute())
        return Address(f"unix:{path}", "", 0, path, tls=False, prefix="", authority="localhost")
    shown = re.sub("//.*@", "//…@", text)  # a password is not repeated
    refused = ValueError(f"url is {shown!r}; it must be {_LIMIT}")
    try:
        parts = urlsplit(text)
        port = parts.port
        (parts.hostname or "").encode("idna")  # as the system's resolver has it
    except ValueError as error:
        raise refused from error
    if "@" in parts.netloc:
        raise ValueError(f"url is {shown!r}; it must be without a user: `api_key` takes the key")
    if parts.scheme not in _PORTS or not parts.hostname or parts.query or parts.fragment:
        raise refused
    if not _PATH.fullmatch(parts.path) or " " in parts.netloc or not text.isprintable():
        raise refused
    return Address(
        url=text.rstrip("/"),
        host=parts.hostname,
        port=_PORTS[parts.scheme] if port is None else port,
        socket_path="",
        tls=parts.scheme == "https",
        prefix=parts.path.rstrip("/"),
        authority=parts.netloc,
    )
