"""Servers to compare with, each a process: bare sockets (`floor`, `sink`), and peers."""
