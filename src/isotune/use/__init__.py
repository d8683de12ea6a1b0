"""What people do with a finished encoder: encode files, search, serve, export and label.

Nothing here trains.
"""
