"""Jobs over HTTP: posted, listed, followed, cancelled, and their results sent.

`jobs` has the routes, `events` tells of jobs as they change by server-sent events, `job_schemas`
are their documents.
"""
