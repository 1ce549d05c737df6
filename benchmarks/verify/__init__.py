"""How many wrong products pass their check, and its cost: `python -m benchmarks.verify`."""
