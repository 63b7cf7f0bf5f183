"""Fetches from the web under the egress policy; the only package of the service with sockets."""
