"""`isotune doctor`: what this machine has, and whether the encoder computes correctly on it."""

from typing import Annotated

from isotune.cli.parameters import ENCODER, JSON, Name


def doctor(
    encoder: Annotated[Name | None, ENCODER] = None, /, *, as_json: Annotated[bool, JSON] = False
) -> int:
    """Prints the versions, the processor, the free disk space and the datasets, and tests that isotune's packed encoder
    gives the same vectors as the padded model of transformers. An ENCODER that isotune saved has to give the vectors
    that it gave when it was saved. Without ENCODER, the bundled model is tested.
    """
    import os
    import platform
    import shutil
    from importlib.metadata import PackageNotFoundError, version

    import torch

    from isotune.bundled import MODEL_FOLDER
    from isotune.cli.tables import print_json
    from isotune.data import DATASETS, available
    from isotune.encoder.encoder import Encoder
    from isotune.kernels.device import gpu_name

    facts: dict[str, str] = {}

    def line(name: str, value: str) -> None:
        facts[name] = value
        if not as_json:
            print(f"{name:<22}{value}")

    line("python", platform.python_version())
    for package in ("isotune", "torch", "transformers", "tokenizers", "sentence-transformers"):
        try:
            line(package, version(package))
        except PackageNotFoundError:
            line(package, "not installed")
    line(
        "processor",
        f"{platform.machine()}, cores: {os.cpu_count()}, threads: {torch.get_num_threads()}",
    )
    line("gpu", gpu_name())
    line("free disk", f"{shutil.disk_usage('.').free / 1e9:.0f} GB here")
    line("ISOTUNE_DATA", os.environ.get("ISOTUNE_DATA", "not set"))
    line("datasets here", ", ".join(name for name in DATASETS if available(name)))
    sentences = ["Short.", "A longer sentence, packed in the same batch as the short one."]
    model = Encoder.load(encoder or MODEL_FOLDER, precision="float32")
    changed = model.changed(vectors=True)
    packed = model.encode(sentences)
    # Encode again with the same weights, padded and with the attention of transformers.
    model.backbone.pad()
    error = abs(packed - model.encode(sentences)).max()
    line(
        "packed encoder",
        f"{'right' if error < 1e-4 else 'WRONG'}: off by {error:.1e} from the padded encoder",
    )
    if changed is not None:
        line(
            "saved encoder",
            f"WRONG: {changed}"
            if changed
            else "right: it has the tokens and vectors of its saving",
        )
    if as_json:
        print_json(facts)
    return 1 if changed or error >= 1e-4 else 0
