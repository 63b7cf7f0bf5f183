"""Durable state of the service: jobs, their rows, accounts, webhook deliveries.

`sql` has the store, which runs named statements on any database, and `records` and its neighbours
the values. `sqlite` and `postgres` are such databases; `backends` chooses one.
"""
