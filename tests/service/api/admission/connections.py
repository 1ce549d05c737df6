"""Sockets to a service, over each of its ways."""

import socket


def connect(server, way="tcp"):
    """A connection over TCP, without TLS, or over the Unix socket; the caller closes it."""
    if way == "tcp":
        return socket.create_connection(("127.0.0.1", server.port), timeout=30)
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(30)
    connection.connect(str(server.settings["unix_socket"]))
    return connection
