"""The papers' experiments, rebuilt on data that fits a small machine: one command each."""
