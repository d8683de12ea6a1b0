"""The encoder that users keep: a pretrained model on packed sentences, pooling, heads, and their saved form.

`load.py` loads an encoder, `encoder.py` is the encoder. Importing this package itself loads no torch, so that the
command line can read the options without it.
"""
