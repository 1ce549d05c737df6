"""The bytes of requests and answers."""
