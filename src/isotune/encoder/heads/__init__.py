"""Layers on top of the pooled vector that stay with the encoder and are saved in its folder."""
