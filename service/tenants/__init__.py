"""Tenants: who calls, by its key or by a token of an issuer.

`tenant` is a caller: name, scopes, quotas, and what limits it. `api_keys` are the rows of the
callers' keys; a service has them in memory and reads them again once a second, so calls do not wait
for the database. `tokens` verifies an issuer's JWTs with the keys that `issuer_keys` fetches and
`jwks` parses.

The key in the environment is the service's own: its caller is the one tenant without a name, and
sees what belongs to any tenant. docs/operations.md is for operators.
"""
