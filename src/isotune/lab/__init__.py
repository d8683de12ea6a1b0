"""The lab: everything that compares encoders, on top of training and evaluation.

| question | place |
|---|---|
| What does a figure show of encoders that exist? | `analyses/`, one module for each figure |
| Which of several trainings is better? | `studies/`: from a TOML file to a page |
| How is a paper's table made again? | `studies/` too: the tables are files in `studies/papers/` |
"""
