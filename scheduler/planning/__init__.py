"""From a problem to a plan: `candidates`, `split`, `plan`.

- `candidates` are the kernels that run here, can be held to as many multiprocessors as are asked
  for, and sum as exactly as is asked for: *strict* (IEEE, in the order of k), *library* (as NumPy
  and cuBLAS, which sums float64 on tensor cores; the default), *float32* or *float64* (errors as of
  that type, tensor cores allowed). What is only assumed of a kernel never outranks what was
  measured of another. The fastest come first; ours are preferred to cuBLAS only where they are
  faster.
- `split` chooses F: the least T at which the rows that all devices finish within T add up to M.
  Exact, for any number of devices.
- `plan` chooses. A split must promise 5% over the better single device, 10% where copies are
  staged.

`cache` keeps plans by shape until runs correct them, `trial` lets one of 50 products run where none
of its kind has run; `description` shows one as JSON. Each group of numbers in a profile
names its source, and every plan shows it.
"""
