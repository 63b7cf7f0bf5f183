"""Pure decisions about pacing: back-off, Retry-After, circuit breakers, rate limits, host queues.

Every module takes the time and random numbers as arguments and returns decisions or new values.
`retry_policies` has the values of the client and of the service, which do the waiting.
"""
