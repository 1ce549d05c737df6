"""Ways to multiply matrices in host memory: `baseline` has the interface and wavetrim's own.

`libraries`, `streamed_cupy` and `several_cupy` (on several GPUs) are others'. `lineup` names those
that run here.
"""
