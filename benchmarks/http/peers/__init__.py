"""Peers: servers as a user would write them, with NumPy and with CuPy."""
