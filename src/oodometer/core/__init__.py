"""Data classes, protocols, validation and numerics that all other packages use."""
