"""Data, models and tasks shared by several tests."""
