"""The HTTP contract: paths, limits, states, requests, replies, events and signatures.

Contains data and rules without I/O. The service validates requests with it, and the toolkit builds
requests and parses replies with it.
"""
