"""Measurements on top of the layers, used by two commands only.

- `nano` is the idea of wavetrim in 150 lines, for readers: it imports nothing from the rest, and is
  the only file with CUDA source in a Python string.
- `experiments/` repeats the programs from which wavetrim began, the *reference*, with wavetrim's
  kernels and executor (`wavetrim reproduce`).
- `probes/` measures memories, links and launches (`wavetrim probe`), with the kernels of `gpu/`,
  whose sources are in `cuda/`.

The last two make tables and plots (`reports/`), with the reference's figures next to their own.
Every error ends the command, with its message.
"""
