"""What the service says of its machine, itself and the caller.

- `devices` lists what computes here or can be planned for, and the numbers that plans are made
  from.
- `health` is open to everybody, and `metrics` unless a setting forbids it.
- `me` tells a caller its name, scopes and quotas.
"""
