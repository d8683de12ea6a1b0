"""`isotune export`: an encoder as a folder that needs no torch."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from isotune.cli.parameters import ENCODER, Name

OUT = (
    "The new folder: model.onnx, the tokenizer, settings, an example (encode.py) and a model card "
    "(README.md)."
)


def export(
    encoder: Annotated[Name, ENCODER],
    /,
    *,
    out: Annotated[Path, Parameter(help=OUT, metavar="DIR")],
) -> None:
    """Pooling, heads and normalisation are part of the graph. The folder is written after the graph
    has given the encoder's vectors for the sentences of the bundled test pairs.
    """
    from isotune.console import PlainConsole
    from isotune.use.export.onnx import export_onnx

    with PlainConsole(stderr=True).status("exporting"):
        difference = export_onnx(encoder, out)
    size = sum(path.stat().st_size for path in out.glob("model.onnx*"))
    print(f"{out}: model.onnx of {size / 1e6:,.1f} MB; python {out / 'encode.py'} tries it")
    print(f"its vectors differ from the encoder's by at most {difference:.1e} of their length")
