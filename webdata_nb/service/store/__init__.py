"""Durable state of the service: jobs, their rows, accounts, webhook deliveries.

`interface` has the protocols that everything outside uses, `records` and its neighbours the values.
`sql` implements the protocols with named statements on any database; `sqlite` and `postgres` are
such databases. `backends` chooses one.
"""
