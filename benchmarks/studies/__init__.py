"""The papers' experiments, reproduced at a scale that fits a small machine; one command each."""
