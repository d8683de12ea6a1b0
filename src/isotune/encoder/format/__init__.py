"""What is in the folder of an encoder.

It has a language model, a tokenizer, a prompt, and the modules that make sentence vectors.
"""
