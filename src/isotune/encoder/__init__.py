"""The encoder: a pretrained model on packed sentences, poolings, heads, and the folder it is kept in.

Importing this package loads no torch, so that the options can be read without it; `encoder` does.
"""
