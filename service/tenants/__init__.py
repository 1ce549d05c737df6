"""Who calls, by its key or by a token of an issuer, and what it has under way."""
