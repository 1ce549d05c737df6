"""nginx in front of a service, with the configuration of deploy/."""

import os
import pwd
import socket
from contextlib import contextmanager

from tests.needs import find_command
from tests.processes import running
from tests.server import ROOT, find_free_port

CERTIFICATE = "ssl_certificate /etc/nginx/wavetrim.pem;"
KEY = "ssl_certificate_key /etc/nginx/wavetrim.key;"
_TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


@contextmanager
def run_nginx(folder, upstream, *, buffering, tls=None):
    """Run nginx before a service until the block ends; yields its port.

    With buffering it receives a whole body before it calls the service.
    """
    port = find_free_port()
    text = (ROOT / "deploy" / "nginx.conf").read_text()
    certificate, key = tls or (None, None)
    ssl = "" if tls is None else " ssl"
    for shown, used in (
        ("listen 443 ssl;", f"listen 127.0.0.1:{port}{ssl};"),
        (CERTIFICATE, f"ssl_certificate {certificate};" if tls else ""),
        (KEY, f"ssl_certificate_key {key};" if tls else ""),
        ("server 127.0.0.1:8000;", f"server {upstream};"),
        ("request_buffering off;", f"request_buffering {'on' if buffering else 'off'};"),
    ):
        assert text.count(shown) == 1, shown
        text = text.replace(shown, used)
    temporary = "".join(f"{name}_temp_path {folder}/{name};\n" for name in _TEMPORARY)
    configuration = folder / "nginx.conf"
    configuration.write_text(
        f"user {pwd.getpwuid(os.geteuid()).pw_name};\n"
        f"daemon off;\npid {folder}/nginx.pid;\nerror_log {folder}/error.log info;\n"
        f"events {{}}\nhttp {{\naccess_log {folder}/access.log;\n{temporary}{text}}}\n"
    )
    options = ["-e", f"{folder}/error.log", "-p", folder, "-c", configuration]

    def is_listening():
        socket.create_connection(("127.0.0.1", port)).close()
        return True

    with running([find_command("nginx"), *options], folder / "output.log", is_listening):
        yield port
