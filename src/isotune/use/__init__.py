"""What people do with a finished encoder: encode files, search, serve and export. Nothing here trains."""
