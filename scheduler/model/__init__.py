"""What rows of a product cost on each device.

`waves` counts tiles and waves; `cost` is a curve of seconds over rows, `cpu` holds the CPU's
figures, `gpu_curve` times the GPU's schedule, `curves` builds all curves of one product, and
`corrections` multiplies each by what earlier runs say.
"""
