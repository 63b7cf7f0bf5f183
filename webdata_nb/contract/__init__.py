"""The door: every path, limit, state, request, reply, event and signature of the wire contract.

Pure data and rules, no I/O. Both rooms speak it: the service validates with it, the toolkit
builds its calls and reads its answers with it.
"""
