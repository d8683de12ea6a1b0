"""The folder of an encoder: weights, tokenizer, prompt and the modules of sentence-transformers."""
