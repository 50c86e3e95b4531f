"""Suites of real models and real targets with known accuracy, judged leave-one-suite-out.

Each module of a data family lists its suites in `SUITES`; `registry` collects them. `python -m
benchmarks.suites` trains the models, stores their outputs and computes the results of all cases.
"""
