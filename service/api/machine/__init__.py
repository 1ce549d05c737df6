"""What the service says of itself, and of who asks.

- `devices` compute here, or can be planned for (`device_schemas`); `profile` has their numbers.
- `health` is open, and `metrics` unless it is set otherwise.
- `me` tells a caller its name, scopes and quotas.
"""
