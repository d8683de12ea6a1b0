"""Says how many rows of a task an encoder was trained on, where its run folder knows that."""

import logging
from collections.abc import Sequence
from pathlib import Path

from isotune.data.trained_rows import TRAINED_ROWS, find_trained, read_hashes
from isotune.errors import InputError, counted
from isotune.evaluation.tasks import DevTask, Task

logger = logging.getLogger(__name__)


def tell_trained_rows(encoder: str | Path, tasks: Sequence[Task]) -> None:
    """Warns of each task with rows that the encoder was trained on.

    Nothing is known of an encoder that is not the folder `encoder` of a run.
    """
    # The folder may be named by "." or by a link.
    folder = Path(encoder).resolve()
    path = folder.parent / TRAINED_ROWS
    if folder.name != "encoder" or not path.exists():
        return
    try:
        hashes = read_hashes(path)
    except InputError as error:
        # The scores hold without it.
        logger.warning("%s; so nothing is known of the rows that were trained on", error)
        return
    for task in tasks:
        if not isinstance(task, DevTask):
            continue
        found = find_trained(hashes, task.pairs)
        if found.rows:
            about = "about " if found.is_estimate else ""
            logger.warning(
                "%s: %s was trained on %s%s of its %s (letters and digits are compared); its score "
                "there says little about other rows",
                task.name,
                encoder,
                about,
                f"{found.rows:,}",
                counted(found.of, "row"),
            )
