"""A Hugging Face hub on this machine, for tests that fetch data and models by their names."""
