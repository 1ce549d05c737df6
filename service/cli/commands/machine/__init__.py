"""Commands about this machine: `plan`, `multiply`, `devices`; `calibrate`, `probe`, `reproduce`.

The last two share `reports`.
"""
