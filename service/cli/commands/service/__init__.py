"""Commands of who runs a service: `demo`, `serve`, `keys`, `node`, `backup` and `adopt`."""
