"""An issuer of tokens: its keys, its JWKS over HTTP, and tokens of all kinds."""

import base64
import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

ISSUER = "https://issuer.example/"
AUDIENCE = "wavetrim"

MAKERS = {
    "RS256": lambda: rsa.generate_private_key(public_exponent=65537, key_size=2048),
    "PS384": lambda: rsa.generate_private_key(public_exponent=65537, key_size=2048),
    "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "ES512": lambda: ec.generate_private_key(ec.SECP521R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate,
}


class Issuer:
    """Keys by their ids, each for one algorithm, and how often their JWKS was read.

    It is answered with `status`; if it is slow, an answer begins and never ends.
    """

    def __init__(self, **algorithms):
        self.keys = {}
        for kid, algorithm in algorithms.items():
            self.add(kid, algorithm)
        self.reads = 0
        self.status = 200
        self.is_slow = False
        self.ended = threading.Event()

    def add(self, kid, algorithm):
        self.keys[kid] = algorithm, MAKERS[algorithm]()

    def describe(self):
        return {"keys": [describe_key(kid, *key) for kid, key in self.keys.items()]}

    def sign(self, kid, *, headers=None, **claims):
        """A token that is right, but for what is named; None leaves a claim out."""
        algorithm, private = self.keys[kid]
        return jwt.encode(
            make_claims(**claims), private, algorithm, headers={"kid": kid, **(headers or {})}
        )


def make_claims(**claims):
    """The claims of a right token, with others in their places; None leaves one out."""
    right = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "ada",
        "exp": int(time.time()) + 600,
        "scope": "read compute",
    }
    return {name: value for name, value in {**right, **claims}.items() if value is not None}


def describe_key(kid, algorithm, private):
    """A public key as a JWKS has it."""
    public = jwt.get_algorithm_by_name(algorithm).to_jwk(private.public_key(), as_dict=True)
    public.pop("key_ops", None)
    return {**public, "kid": kid, "use": "sig"}


def forge(header, claims, signature=b""):
    """A token of any parts."""
    parts = (json.dumps(header).encode(), json.dumps(claims).encode(), signature)
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)


@contextmanager
def serve(issuer):
    """A server of the issuer's JWKS, for a block; yields its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            issuer.reads += 1
            content = json.dumps(issuer.describe()).encode()
            self.send_response(issuer.status)
            if issuer.status == 302:
                self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if issuer.is_slow:
                self.wfile.write(content[:1])
                issuer.ended.wait(30)
            else:
                self.wfile.write(content)

        def log_message(self, format, *args):  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/jwks.json"
    finally:
        issuer.ended.set()
        server.shutdown()
        thread.join()
        server.server_close()
