"""Search with an encoder: an index on disk, and exact nearest neighbours.

index = Index.create("runs/index", "runs/notes/encoder")
index.add(read_documents("notes.txt"))
hits = index.search("How do I reset it?", where="lang = 'en'")
"""

from isotune.use.search.documents import Document, read_documents
from isotune.use.search.index import Changes, Hit, Index
