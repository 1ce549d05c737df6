"""The HTTP API: a file per resource."""
