"""Clients for tests: blocking and asynchronous, over TCP and over a Unix socket.

The fixture `client` is each of them in turn. Calls of an asynchronous client are awaited at once,
so one test serves both. The fixtures are known in all tests by conftest.py.
"""

import asyncio
import inspect

import pytest

from wavetrim.client import AsyncClient, AsyncJob, Client

KINDS = ("blocking", "asyncio")


class Awaited:
    """An object of the asynchronous client, whose calls are awaited at once."""

    def __init__(self, wrapped, loop):
        self.wrapped = wrapped
        self._loop = loop

    def __getattr__(self, name):
        found = getattr(self.wrapped, name)
        return self._await_call(found) if callable(found) else found

    def _await_call(self, function):
        def call(*arguments, **named):
            result = function(*map(_unwrap, arguments), **named)
            if inspect.isasyncgen(result):
                return iter(self._wrap(self._loop.run_until_complete(_collect(result))))
            if inspect.isawaitable(result):
                result = self._loop.run_until_complete(result)
            return self._wrap(result)

        return call

    def _wrap(self, result):
        if isinstance(result, list):
            return [self._wrap(one) for one in result]
        return Awaited(result, self._loop) if isinstance(result, AsyncJob) else result


def _unwrap(argument):
    if isinstance(argument, list | tuple):
        return [_unwrap(one) for one in argument]
    return argument.wrapped if isinstance(argument, Awaited) else argument


def open_client(kind, url, **options):
    """A client of a kind; calls of both kinds return results, not coroutines."""
    if kind == "blocking":
        return Client(url, **options)
    return Awaited(AsyncClient(url, **options), asyncio.new_event_loop())


def close_client(client):
    if isinstance(client, Client):
        client.close()
    else:
        client.aclose()
        client._loop.close()


@pytest.fixture(params=["blocking over TCP", "asyncio over Unix"])
def client(request, shared_server, unix_socket):
    """A blocking client over TCP, then an asynchronous one over a Unix socket."""
    kind, _, way = request.param.partition(" over ")
    opened = open_client(kind, shared_server.url if way == "TCP" else unix_socket)
    yield opened
    close_client(opened)


@pytest.fixture(params=KINDS)
def kind(request):
    """Each kind of client in turn."""
    return request.param


@pytest.fixture
def connect(kind):
    """Opens clients of each kind in turn; all are closed after the test."""
    opened = []

    def open_one(url, **options):
        opened.append(open_client(kind, url, **options))
        return opened[-1]

    yield open_one
    for each in opened:
        close_client(each)


@pytest.fixture(scope="session")
def unix_socket(shared_server):
    """The other address of the service that all tests share."""
    return shared_server.unix_socket


async def _collect(values):
    return [value async for value in values]
