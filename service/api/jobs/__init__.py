"""Jobs over HTTP: posted, listed, followed, cancelled, and their results sent.

`jobs` has the routes, `events` sends changes of jobs as server-sent events, `job_schemas` has the
schemas.
"""
