"""Experiments: studies that compare runs, analyses of encoders, and the papers' tables and figures."""
