"""Takes an encoder out of isotune: an ONNX folder that needs no torch."""
