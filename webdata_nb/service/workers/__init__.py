"""Runs page work in worker processes with CPU and memory limits."""
