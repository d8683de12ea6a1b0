"""The lab: everything that compares encoders, on top of training and evaluation.

| question | place |
|---|---|
| What does a figure show of encoders that already exist? | `analyses/`, one module for each figure |
| Which of several trainings is better, over seeds and options? | `studies/`: from a TOML file to a page |
| How is a paper's table or figure made again? | `studies/` too: the tables are TOML files in `studies/papers/` |
"""
