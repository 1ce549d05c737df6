"""The media types of a .npy file, and the choice of one for an answer."""

from typing import Final

MEDIA_TYPES: Final = ("application/octet-stream", "application/x-npy")


def choose_media_type(accept: str | None) -> str:
    """The media type of an answer: octet-stream only if Accept names that and not x-npy."""
    if accept is not None and MEDIA_TYPES[0] in accept and MEDIA_TYPES[1] not in accept:
        return MEDIA_TYPES[0]
    return MEDIA_TYPES[1]
