"""From a problem to a plan: `candidates`, `ranking`, `team`, `split`, `plan`, the two choices.

- `candidates` are the kernels that run on this GPU, can be held to the requested number of
  multiprocessors, and have the requested accuracy: *strict* (IEEE, in the order of k but for
  divided tails), *library* (as NumPy and cuBLAS, which sums float64 on tensor cores; the default),
  *float32* or *float64* (errors as of sums in that type, tensor cores allowed). If any of them was
  measured, those whose times are only assumed are left out.
- `ranking` puts the fastest first, ours before cuBLAS only if they are faster. The schedules of the
  first few are compared.
- `team` is the curve of several GPUs at once and the part of each. `team_curves` builds it, with
  each link at its part of the joint rates. Equal GPUs take equal rows, in whole tiles; each fetches
  all of B, or they exchange parts of it. Where A is much smaller than B they take equal columns,
  and each fetches only its part of B.
- `split` chooses F: it finds the least time within which all devices together finish M rows.
  Exact, for any number of devices.
- `plan` says which device computes which rows, and when.
- `kernel_choice` compares the GPU alone, the CPU alone and the best split of each kernel, all on
  given devices. A split must promise 5% over the better single device, 10% where copies are staged.
- `choice` compares the best plans on one GPU and on more. Each further one must promise as much. Of
  GPUs that differ, the first is the one that is fastest at the product.

`cache` keeps plans by shape. Once runs have moved a plan's corrections by a fifth, `revisions`
makes it anew beside products; none waits for that. `residency` decides when a B that comes again
stays on the GPUs, by the plans with and without it there. `lanes` chooses which devices work at
which product while several wait; a plan may be held to such a lane. `placing` chooses among the
engines of a cluster. `description` is a plan as JSON, as a run is told it, with the source of each
figure; `explanation` adds what explains it: seconds over F (`curve_points`) and when each device is
at work (`queues`).
"""
