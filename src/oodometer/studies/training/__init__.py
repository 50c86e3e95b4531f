"""Pools: many models trained in many ways on many domains, to judge measures by."""
