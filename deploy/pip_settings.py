"""This machine's pip settings, for an image build on the same network.

An index, a proxy or certificates of the site reach the build as secrets: they are neither in the
repository nor in the image.
"""

import configparser
import os
from pathlib import Path

_FILES = ("/etc/xdg/pip/pip.conf", "/etc/pip.conf", "~/.pip/pip.conf", "~/.config/pip/pip.conf")
_KEYS = ("index-url", "extra-index-url", "trusted-host", "proxy", "timeout", "retries")
_BUNDLE_VARIABLES = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
_BUNDLE_IN_BUILD = "/run/secrets/ca_bundle"


def write_build_secrets(folder: Path) -> dict[str, Path]:
    """Writes what a build on this machine's network needs.

    Args:
        folder: Where the pip configuration is written.

    Returns:
        Secret id → file: `pip_conf` always, `ca_bundle` where this machine names a bundle.
    """
    settings = read_settings()
    secrets = {"pip_conf": folder / "pip.conf"}
    if bundle := find_bundle(settings):
        secrets["ca_bundle"] = bundle
        settings["cert"] = _BUNDLE_IN_BUILD
    else:
        settings.pop("cert", None)
    lines = [f"{key} = {value}" for key, value in sorted(settings.items())]
    secrets["pip_conf"].write_text("\n".join(["[global]", *lines, ""]))
    return secrets


def read_settings() -> dict[str, str]:
    """Returns pip's network settings: files first, then PIP_… variables, as pip reads them."""
    parser = configparser.RawConfigParser()
    parser.read(
        [*(Path(file).expanduser() for file in _FILES), os.environ.get("PIP_CONFIG_FILE", "")]
    )
    settings: dict[str, str] = {}
    for key in (*_KEYS, "cert"):
        variable = "PIP_" + key.upper().replace("-", "_")
        if value := os.environ.get(variable) or parser.get("global", key, fallback=""):
            settings[key] = value
    return settings


def find_bundle(settings: dict[str, str]) -> Path | None:
    """Returns the certificates that this machine was told to trust, None where it was told none."""
    named = [settings.get("cert"), *(os.environ.get(name) for name in _BUNDLE_VARIABLES)]
    files = (Path(name) for name in named if name)
    return next((file for file in files if file.is_file()), None)
