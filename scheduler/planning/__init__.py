"""From a problem to a plan: `candidates`, `team`, `split`, `plan`.

- `candidates` are the kernels that run on this GPU, can be held to the requested number of
  multiprocessors, and have the requested accuracy: *strict* (IEEE, in the order of k), *library*
  (as NumPy and cuBLAS, which sums float64 on tensor cores; the default), *float32* or *float64*
  (errors as of sums in that type, tensor cores allowed). If any of them was measured, those whose
  times are only assumed are left out. The fastest come first; ours come before cuBLAS only if they
  are faster.
- `team` is the curve of several GPUs at once and the part of each. `team_curves` builds it, each
  GPU's at its part of the links' joint rates. Equal GPUs take equal rows, in whole tiles; each
  fetches all of B, or they exchange parts of it. Where A is small beside B they take equal columns,
  and each fetches its part of B alone.
- `split` chooses F: it finds the least time within which all devices together finish M rows.
  Exact, for any number of devices.
- `plan` says who computes which rows, and when. `choice` compares the GPU alone, the CPU alone and
  the best split of each kernel. A split must promise 5% over the better single device, 10% where
  copies are staged; so must each GPU more.

`residency` decides when a B that comes again is to stay on the GPUs, by the plans with and without.
`lanes` chooses which devices work at which product while several wait; a plan may be held to such a
lane. `cache` keeps plans by shape until runs correct them. `trial` tries another device or kernel,
which has not run such products yet, for one of 50 products. `description` is a plan as JSON. Each
group of numbers in a profile names its source, and every plan shows it.
"""
