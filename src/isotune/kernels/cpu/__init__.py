"""What makes packed batches fast on a CPU: attention, dropout, matrix products, memory."""
