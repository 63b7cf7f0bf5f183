"""Fault injection for store and runner: statements that fail, kills and clocks that jump."""
