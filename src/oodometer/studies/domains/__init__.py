"""Domain groups: named datasets with the same kind of inputs and the same classes."""
