"""Slow, literal transcriptions of the papers' formulas in float64, which the package's fast code has to equal."""
