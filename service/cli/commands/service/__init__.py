"""Commands to run a service: `demo`, `serve`, `keys`, `node`, `backup` and `adopt`."""
