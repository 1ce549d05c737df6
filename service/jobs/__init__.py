"""Jobs: products that are posted, queued, computed by an engine and kept as matrices.

In the order of a job's way:

1. `job` says what a job is and which states it has; `posting` checks a request (`errors`) and makes
   it a job, `table/` keeps it as a row. Rows outlive the process: a job that a restart interrupted
   runs again.
2. `dispatch` takes jobs by priority, then age. `queue` knows those posted to an idle service
   without reading the database.
3. `runs` has the jobs that run; `run` takes one through its tries, deadline and cancellation. A
   run is in memory at first and in the row after 0.2 s, so the row of a short job is written only
   twice. A job from before the service's start has each try written before it begins, since it may
   be what ended the service.
4. `work` makes a run ready: `operands` are found in the arena, or read into it while their CRC-32
   is checked. The engine reads others from their files, which are checked again after the product.
   The `result` has memory of its own.
5. `lanes/` is the way to the engines, for jobs and for products in one call (`products`). Only the
   smallest of the latter do not take it: they are computed at once (`inline`).
6. While the engine computes, it tells which rows are final, and `storage/matrices/draft.py` hands
   these to the disk's writer. Another try begins another file.
7. `news` tells followers of each change, from memory; `waiters` are told of the end.
8. The result is published as a matrix: to be fetched, or to be an operand of the next job.
"""
