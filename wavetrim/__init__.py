"""Matrix products on the GPU and the CPU at once, split where the waves end."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wavetrim.client import AsyncClient as AsyncClient
    from wavetrim.client import Client as Client

__all__ = ["AsyncClient", "Client"]


def __getattr__(name: str) -> Any:
    """A public name, imported when it is first asked for."""
    if name in __all__:
        from wavetrim import client

        return getattr(client, name)
    raise AttributeError(f"module 'wavetrim' has no attribute {name!r}")
