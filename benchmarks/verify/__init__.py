"""How much a product's check misses, and its cost: `python -m benchmarks.verify`."""
