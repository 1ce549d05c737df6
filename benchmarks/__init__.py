"""Measured comparisons with peers, side by side in one run."""
