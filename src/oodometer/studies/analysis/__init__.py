"""How measures are judged: everything here is computed from a table of evaluations alone."""
