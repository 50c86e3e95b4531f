"""Domain groups: named datasets of one kind with the same classes."""
