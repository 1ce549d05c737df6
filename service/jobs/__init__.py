"""Jobs: products that are posted, queued, computed by an engine and kept as matrices.

In the order of a job's way:

1. `job` says what a job is asked for, what it is and which states it has. `table/` keeps jobs as
   rows, which outlive the process: a job that a restart interrupted runs again.
2. `dispatch` checks requests (`errors`), has them planned (`plans`), takes them in and is asked
   about them. `live` has those that have not ended: they wait for the results of others, which come
   to the queue when these have succeeded and end with them otherwise, and then in the queue; as
   many begin as the engines can take.
3. `queue` has all that waits, jobs and products in one call, and says who is next. `ends` tells
   when jobs should end, by the formulas of `estimate`.
4. `run` is one such job, with its tries. A try is in memory at first and in the row after 0.2 s, so
   the row of a short job is written only twice. A job from before the service's start has each try
   written before it begins, since it may be what ended the service. Its `operands` are found in the
   arena, or read into it while their CRC-32 is checked. The engine reads others from their files,
   which are checked again after the product. The result has memory of its own.
5. `lanes/` is the way to the engines, of jobs and of products in one call (`products`). Only the
   smallest do not take it: they are computed at once (`plans`).
6. While the engine computes, it tells which rows are final, and `storage/matrices/draft.py` hands
   these to the disk's writer. Another try begins another file.
7. `news` tells followers of each change, and those who wait of the end, from memory.
8. The result is published as a matrix: to be fetched, or to be an operand of the next job.
"""
