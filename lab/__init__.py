"""Measurements on top of the layers, used by two commands only.

- `experiments/` repeats the programs that wavetrim grew from, the *reference*, on wavetrim's own
  kernels and executor (`wavetrim reproduce`).
- `probes/` measures memories, links and launches (`wavetrim probe`), with the kernels of `gpu/`,
  whose sources are in `cuda/`.

Both make tables and plots (`reports/`), with the reference's figures next to their own.
"""
