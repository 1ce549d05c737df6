"""What rows of a product cost on each device.

`waves` counts tiles and waves, `staircase` reads them off measured launches; `cost` is a curve of
seconds over rows, `cpu` and `row_cost` give the CPU's, `stream` and `gpu_curve` the GPU's, `curves`
all of one product's.
"""
