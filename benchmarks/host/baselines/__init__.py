"""Who multiplies matrices in host memory, one way a file."""
