"""Who calls, by its key or by a token of an issuer, and what it has under way.

`tenant` is a caller: name, scopes, quotas. `key_ring` has the callers' keys in memory and reads
them again once a second, so a call never waits for the database. `tokens` reads an issuer's JWTs by
the keys that `issuer_keys` fetches and `jwks` reads. `bytes_in_flight` counts against quotas.

The key of the environment is the service's own: its caller is the one tenant without a name, and
sees everybody's things. docs/keys.md tells it to operators.
"""
