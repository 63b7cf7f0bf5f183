"""Runs persisted jobs from their claim to their end."""
