"""Conditions on a matrix's ETag: If-Match and If-None-Match (RFC 9110, section 13.1)."""

from starlette.datastructures import Headers

from wavetrim.service.errors import ConditionFailed


def check_if_match(asked: Headers, etag: str) -> None:
    """Makes sure that If-Match, if it was sent, has the ETag of a matrix that is there.

    The comparison is strong: a weak tag never matches.

    Raises:
        ConditionFailed: It has other tags only.
    """
    tags = _list_tags(asked, "if-match")
    if tags and tags != ["*"] and etag not in tags:
        sent = ", ".join(asked.getlist("if-match"))
        raise ConditionFailed("If-Match", sent[:200], f"the ETag {etag}, or *")


def knows(asked: Headers, etag: str) -> bool:
    """Whether If-None-Match has the ETag; the comparison is weak."""
    tags = [tag.removeprefix("W/") for tag in _list_tags(asked, "if-none-match")]
    return tags == ["*"] or etag in tags


def _list_tags(asked: Headers, name: str) -> list[str]:
    """The tags of all fields of a name; none if there is no such field.

    A tag may have commas, and is then cut. No part is mistaken for an ETag of a matrix: between
    two quotes of one tag there is no third, and `*` counts alone only.
    """
    return [tag.strip() for field in asked.getlist(name) for tag in field.split(",")]
