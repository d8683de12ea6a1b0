"""What makes packed batches fast: attention, dropout, matrix products and memory. It knows tensors, not sentences."""
