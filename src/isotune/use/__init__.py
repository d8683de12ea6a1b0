"""What people do with a finished encoder: encode files, search, serve, map and export. Nothing here trains."""
