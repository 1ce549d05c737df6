"""Jobs as rows of the database.

`store` adds and changes jobs, in one thread. `changes` are its transactions: all jobs of a POST
are added, and one ends, with those that wait for its result. `rows` makes rows and reads them: by
their ids, page by page, and counted.
"""
