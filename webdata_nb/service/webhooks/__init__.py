"""Tells a caller's endpoint that a job ended: durably, signed, and to nobody's delay."""
