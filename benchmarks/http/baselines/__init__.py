"""Baselines: their interface (`baseline`), the ways to ask servers, and all of them (`lineup`)."""
