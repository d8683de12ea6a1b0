"""`isotune map`: a page on which the sentences of a file lie in the plane."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from isotune.cli.parameters import COLUMNS, ENCODER, SOURCES
from isotune.use.map import Projection

FILE = f"The sentences: {SOURCES}. All other columns are shown with a sentence, and can colour the map."
OUT = "The new page. A .parquet file beside it holds the sentences, their places and the other columns."
PROJECTION = (
    "How vectors become places. tsne keeps similar sentences together and takes minutes for 100,000 sentences. pca "
    "takes seconds, and shows the two directions in which the vectors differ most."
)


def map(
    encoder: Annotated[str, ENCODER],
    /,
    *file: Annotated[str, Parameter(help=FILE)],
    out: Annotated[Path, Parameter(help=OUT, metavar="FILE")] = Path("map.html"),
    projection: Annotated[Projection, Parameter(help=PROJECTION)] = "tsne",
    seed: Annotated[int, Parameter(help="The random seed of the projection.")] = 0,
    columns: Annotated[dict[str, str] | None, COLUMNS] = None,
) -> None:
    """The page is one file without outside resources: zoom, search, colours by column, and a selection of sentences
    that can be saved.
    """
    import pyarrow as pa
    from rich.console import Console

    from isotune.data.tables import typed
    from isotune.encoder.encoder import Encoder
    from isotune.errors import InputError, require_extra
    from isotune.files import written
    from isotune.use.map.page import write_map
    from isotune.use.map.projection import project
    from isotune.use.search.documents import read_documents

    if out.suffix != ".html":
        raise InputError(f"--out {out}: a map is written as .html")
    if projection == "tsne":
        require_extra("map", "openTSNE")
    table = out.with_suffix(".parquet")
    with written(out, new=True) as new_page, written(table, new=True) as new_table:
        documents = list(read_documents(file, columns))
        records = ((document.place or document.id, document.columns) for document in documents)
        with typed(records, pa.schema([])) as (schema, tables):
            columns = pa.concat_tables([schema.empty_table(), *tables])
        sentences = [document.text for document in documents]
        vectors = Encoder.load(encoder).encode(sentences, normalize=True, show_progress=True)
        with Console(stderr=True).status(f"projecting {len(sentences):,} sentences by {projection}"):
            plane = project(vectors, projection, seed)
        title = f"Map of {', '.join(Path(name).name for name in file)}"
        write_map(new_page, new_table, title, sentences, plane, columns)
    print(f"{out}: {len(sentences):,} sentences; the same as a table: {table}")
