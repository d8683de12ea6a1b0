"""The folder of an encoder: language model, tokenizer, prompt, and the modules that make sentence vectors."""
