"""Jobs as rows of the database.

`store` adds, changes and ends jobs, in one thread, and with each end changes what waits for its
result. `rows` makes rows of requests and jobs of rows. `reader` lists, counts and forgets them.
"""
