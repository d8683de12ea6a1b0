"""Slow, literal transcriptions of the formulas, in float64 Python. What the fast ones have to equal."""
