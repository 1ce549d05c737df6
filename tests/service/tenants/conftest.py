"""A service with several callers, over each kind of database."""

import pytest

from tests.postgres import DATABASES
from tests.server import RunningServer
from tests.service.tenants.tenants import OWN_KEY


@pytest.fixture(scope="module", params=DATABASES)
def server(request, tmp_path_factory):
    """A service with a key of its own, over TCP and a Unix socket."""
    folder = tmp_path_factory.mktemp("tenants")
    settings = {"api_key": OWN_KEY, "unix_socket": folder / "socket"}
    if request.param == "postgresql":
        settings["database_url"] = request.getfixturevalue("postgres").create_database()
    with RunningServer(folder / "data", **settings) as running:
        yield running
