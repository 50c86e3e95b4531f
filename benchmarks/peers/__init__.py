"""What others wrote, run by an interpreter of its own: `make bench-peers` makes its environment."""
