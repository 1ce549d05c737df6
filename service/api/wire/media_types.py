"""The media types of a .npy file, and the one in which a caller gets it."""

from typing import Final

MEDIA_TYPES: Final = ("application/octet-stream", "application/x-npy")


def choose_media_type(accept: str | None) -> str:
    """The media type of a .npy file for a caller: octet-stream where Accept asks for that alone."""
    if accept is not None and MEDIA_TYPES[0] in accept and MEDIA_TYPES[1] not in accept:
        return MEDIA_TYPES[0]
    return MEDIA_TYPES[1]
