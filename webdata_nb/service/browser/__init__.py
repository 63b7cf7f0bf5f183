"""Renders pages in Chromium under the egress policy of the service."""
