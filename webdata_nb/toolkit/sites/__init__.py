"""Audits crawls of sites, and watches sites for changes."""
