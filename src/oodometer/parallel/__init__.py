"""Runners, worker processes, and sending work to them by reference."""
