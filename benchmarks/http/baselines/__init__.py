"""Baselines: what each can do (`baseline`), how it is started and asked, and all (`lineup`)."""
