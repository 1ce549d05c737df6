"""Commands for jobs: `submit`, `status`, `fetch` and `cancel`."""
