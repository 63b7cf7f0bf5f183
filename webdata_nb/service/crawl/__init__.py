"""Crawls sites: crawl order, scope, robots.txt, and the outcome of every discovered URL."""
