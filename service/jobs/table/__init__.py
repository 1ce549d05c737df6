"""Jobs as rows of the database.

`store` adds and changes jobs, in one thread. `rows` makes a row, reads it and changes it.
`adding` adds all jobs of a POST; `ending` has all ways in which one ends, and what becomes of those
that wait for its result. `listing` reads jobs: by their ids, page by page, and counted.
"""
