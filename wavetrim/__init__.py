"""Matrix products on the GPU and the CPU at once, split where the waves end."""
