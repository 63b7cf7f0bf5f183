"""Reads a page: bytes in, data out. It knows no network, no store and no event loop."""
