"""The only sockets of the service: URLs, egress policy, transfer, charset, politeness."""
