"""How accurate is a classifier on data that has no labels?"""
