"""Accuracy estimates: estimate(), estimate_files(), diagnostics, label plans."""
