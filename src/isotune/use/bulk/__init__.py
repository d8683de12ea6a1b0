"""Many files of text become as many files of vectors, by any number of processes on any machines.

In the order of the work: `parts.py` says which file becomes which, `folder.py` keeps what the vectors of a folder have
in common and what is done, and lets a process claim a part, `part_file.py` encodes a part, `job.py` goes over all
parts, and `on_ray.py` runs jobs on a Ray cluster. Processes share nothing but the folder of vectors.
"""
