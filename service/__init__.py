"""HTTP, jobs, storage and the command line. Computes nothing and never imports CuPy."""
