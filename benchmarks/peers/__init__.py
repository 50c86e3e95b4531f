"""Peer packages, run in an environment of their own (`make bench-peers`)."""
