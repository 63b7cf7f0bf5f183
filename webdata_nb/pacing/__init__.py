"""Pure decisions about pacing: back-off, Retry-After, circuit breakers, rate limits, host queues.

Every module takes the time and random numbers as arguments and returns decisions or new values.
The client and the service keep their own policy values and do the waiting.
"""
