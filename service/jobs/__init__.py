"""Jobs: a product that was posted, its row, its way to the engine, its end.

In the order of a job's way:

1. `job` says what a job is and which states it has; `posting` makes one of a request that can be
   met (`errors`), `table/` keeps it as a row. Rows outlive the process: a job that a restart
   interrupted runs again.
2. `dispatch` takes jobs by priority, then age. Those posted to an idle service come from memory
   (`queue`).
3. `runs` has the jobs that run. `run` owns one job's tries, deadline and cancellation. That a
   job runs is known in memory and written after 0.2 s, so the row of a short job is written
   twice. A job that was found at a start has each try written before it begins: it may be what
   ended the service.
4. Its `work` is made: `operands` are found in the arena, or read into it with their CRC-32 checked
   on the way. Those that the engine reads from their files are looked at again after the product.
   The `result` has memory of its own.
5. `lanes/` is the one way to the engines, for jobs and for products in one call (`products`). Only
   the smallest of those do not take it: they are computed where they come (`inline`).
6. While the engine computes, it tells which rows are final, and `storage/matrices/draft.py` hands
   these to the disk's writer. Another try begins another file.
7. Whoever follows a job hears of each change from memory (`news`), `waiters` of its end.
8. The result is published as a matrix: to be fetched, or to be an operand of the next job.
"""
