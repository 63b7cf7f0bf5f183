"""Implements the store with named SQL statements on a small `SqlDatabase` protocol."""
