"""From a problem to a plan: `candidates`, `ranking`, `split`, `plan`.

`cache` keeps plans by shape; `description` shows one as JSON.
"""
