"""Code that makes packed batches fast: attention, dropout, matrix products, memory. It knows tensors, not text."""
