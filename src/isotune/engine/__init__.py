"""The engine: how a step is made.

It knows tensors, batches and processes, and no folder of a run.
"""
