"""Jobs as rows of the database.

`store` adds, reads and changes one job at a time, by the statements of `rows`; `listing` is for
many jobs: a page, counts, and those that are too old.
"""
