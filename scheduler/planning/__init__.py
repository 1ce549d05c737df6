"""From a problem to a plan: `candidates`, `split`, `plan`.

`cache` keeps plans by shape, `trial` now and then takes another; `description` shows one as JSON.
"""
