"""Clients on bare sockets: a `product` as a `message` over a `connection`, many as a `load`."""
