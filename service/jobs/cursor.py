"""The mark of a place in the list of jobs."""

from wavetrim.service.cursor import decode_mark, encode_mark


def encode_cursor(sequence: int) -> str:
    """The cursor of the jobs that are older than the one with this sequence number."""
    return encode_mark(f"before:{sequence}")


def decode_cursor(cursor: str) -> int:
    """The sequence number that `encode_cursor` was given.

    Raises:
        CursorUnknown: The text was not made by `encode_cursor`.
    """
    return int(decode_mark(cursor, r"before:(\d{1,18})")[1])
