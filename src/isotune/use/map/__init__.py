"""A map of sentences: their vectors in the plane, on a page to explore.

`projection.py` computes the plane, `page.py` writes the page and the table beside it. The page is `map.html.j2` with
`map.css` and `map.js` in it: one file that needs nothing else.
"""

from typing import Literal

# The ways from vectors to the plane. They are here so that help needs no numpy.
Projection = Literal["tsne", "pca"]
