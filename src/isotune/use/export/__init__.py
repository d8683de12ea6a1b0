"""Takes an encoder out of isotune: an ONNX folder that needs no torch.

`graph.py` is the encoder as a graph on padded batches, `onnx.py` writes and checks the folder.
"""
