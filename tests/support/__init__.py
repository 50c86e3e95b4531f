"""Data, models and tasks that several tests share."""
