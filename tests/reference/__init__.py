"""Slow, literal transcriptions of the papers' formulas in float64.

The package's fast code has to equal them.
"""
