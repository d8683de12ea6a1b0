"""Options of the methods. No torch here: the command line's help and recipes read these models.

A field's name is its key in a recipe's TOML, its flag on the command line and its entry in a run's record; its
docstring is the flag's help. Defaults come from the paper's text; where the authors' code differs, the docstring says
so.
"""
