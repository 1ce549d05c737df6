"""Ways to multiply matrices in host memory, with one interface (`baseline`).

`local` is wavetrim's. `libraries`, `streamed_cupy` and `several_cupy` are others'; the
last one is on several GPUs. `lineup` names those that run here.
"""
