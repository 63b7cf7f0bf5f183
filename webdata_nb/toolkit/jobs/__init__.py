"""Runs jobs at a service, reads their rows while they run, and shows their progress."""
