"""Commands of a job's way: `submit`, `status`, `fetch` and `cancel`."""
