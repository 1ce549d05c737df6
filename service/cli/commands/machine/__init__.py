"""Commands about this machine: `plan`, `multiply`, `devices`; `calibrate`, `probe`, `reproduce`."""
