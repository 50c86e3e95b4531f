"""Label-preserving transforms of texts."""
