"""The client's version."""

from typing import Final

__version__: Final = "0.2.0"
