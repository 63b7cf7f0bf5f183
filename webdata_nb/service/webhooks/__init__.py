"""Delivers signed webhooks from a durable outbox, without delaying jobs."""
