"""What a caller who is refused gets: a problem document with field, value and limit."""

from unittest.mock import ANY


def expect_refusal(response, status, field=None, *, value=ANY, limit=""):
    """Assert that a call was refused, with these words in its limit; returns the document."""
    problem = response.json()
    assert (response.status_code, problem["status"]) == (status, status), problem
    assert response.headers["content-type"] == "application/problem+json"
    assert problem["type"].startswith("urn:wavetrim:problem:")
    assert problem["title"], problem
    assert problem["detail"], problem
    if field is not None:
        assert (problem["field"], problem["value"]) == (field, value), problem
        assert limit in problem.get("limit", ""), problem
        assert problem.get("limit") or status == 404, problem  # what is not there has none
    return problem
