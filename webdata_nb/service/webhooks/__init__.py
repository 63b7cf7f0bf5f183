"""Delivers signed webhooks from a durable outbox, without delaying jobs.

The transaction that ends a job writes the delivery with its exact body, and every attempt signs and
sends the same bytes. Delivery is at least once: a kill between reply and record repeats the event
under the same id, a hash of job and event. An endpoint has lanes of its own, so that a dead
receiver blocks nobody else. Only the status of the reply is read.
"""
