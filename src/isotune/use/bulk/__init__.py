"""Many files of text become as many files of vectors, by any number of processes on any machines.

`folder.py` keeps the folder; `vector_file.py` makes one file; `on_ray.py` gives the files to a Ray
cluster. Read `folder.py` first.
"""
