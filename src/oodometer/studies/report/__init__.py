"""Pages, charts and tables of studies and toys."""
