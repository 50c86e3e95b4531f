"""Neighborhood invariance: invariance(), rank(), suggest_transforms()."""
