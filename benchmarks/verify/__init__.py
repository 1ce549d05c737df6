"""What a product's check misses, and what it takes: `python -m benchmarks.verify`."""
