"""Ray without a cluster: an actor's calls are made at once, by the thread that asks for them.

So a test decides what happens between two steps. Nodes, engines and products are real.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

NODE_ID = "0123456789abcdef" * 3 + "01234567"


class _Call:
    """One method of an actor."""

    def __init__(self, actor: "Actor", name: str) -> None:
        self._actor = actor
        self._name = name

    def options(self, **_: Any) -> "_Call":
        return self

    def remote(self, *arguments: Any) -> Any:
        self._actor.calls.append((self._name, *arguments))
        return getattr(self._actor.engine, self._name)(*arguments)


class Actor:
    """An actor of this process.

    Attributes:
        engine: What its calls go to.
        calls: Name and arguments of each call.
        before: Called once, just before the next call of a name.
    """

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self.calls: list[tuple[Any, ...]] = []
        self.before: dict[str, Callable[[], None]] = {}

    def __getattr__(self, name: str) -> _Call:
        self.before.pop(name, lambda: None)()
        return _Call(self, name)


class RayHere:
    """What a test says of Ray.

    Attributes:
        nodes: Ray's list of nodes.
        actor: The actor that is started, in which all nodes have their engine.
        waits: Whether an object that is waited for is not there yet.
    """

    def __init__(self, actor: Actor) -> None:
        self.actor = actor
        self.nodes: list[dict[str, Any]] = []
        self.waits = False

    def add_node(self) -> None:
        """A node joins."""
        resources = {"wavetrim": 1.0, "CPU": 1.0, "object_store_memory": 2.0**20}
        self.nodes = [{"NodeID": NODE_ID, "Alive": True, "Resources": resources}]

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Answer in place of Ray."""
        import ray

        patch.setattr(ray, "nodes", lambda: self.nodes)
        patch.setattr(ray, "remote", lambda **_: lambda _class: self)
        patch.setattr(ray, "get", lambda value, timeout=None: value)
        patch.setattr(ray, "put", lambda value: value)
        patch.setattr(ray, "wait", self._wait)

    def options(self, **_: Any) -> "RayHere":
        """As of a class of actors."""
        return self

    def remote(self) -> Actor:
        """The actor, as if it were started."""
        return self.actor

    def _wait(self, objects: Sequence[Any], *, timeout: float) -> tuple[Sequence[Any], ...]:
        return ((), objects) if self.waits else (objects, ())
