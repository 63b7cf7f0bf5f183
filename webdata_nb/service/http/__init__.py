"""ASGI middleware and connection limits around the routes."""
