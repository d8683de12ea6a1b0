"""The options of the methods. No torch here: recipes and the command line's help read these models.

The name of a field is its key in a recipe's TOML file, its flag on the command line, and its entry in the record of a
run. Its docstring is the help of the flag. Defaults are those of the paper's text; if the authors' code differs, the
docstring says so.
"""
