"""An index whose process is killed while it adds rows: nothing committed is lost, and adding again goes on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from isotune.encoder.encoder import Encoder
from isotune.use.search import Changes, Index, read_documents

ADD = """
    import sys
    from pathlib import Path

    from isotune.encoder import stream
    from isotune.use.search import Index, index, read_documents, store

    stream.PART = index.PART = 16
    store.FRAGMENTS = 3
    put = store.Store.put

    def put_and_say(self, rows, vectors):
        put(self, rows, vectors)
        print(len(self), flush=True)

    store.Store.put = put_and_say
    folder, model, text = sys.argv[1:]
    use = Index.open if Path(folder, "index.json").exists() else Index.create
    use(folder, model).add(read_documents(text))
"""


@pytest.mark.parametrize("commits", [[3], *(pytest.param(counts, marks=pytest.mark.slow) for counts in ([1], [5, 3]))])
def test_a_killed_process_loses_no_commit(
    commits: list[int], tiny_model: Path, encoder: Encoder, tmp_path: Path
) -> None:
    text = tmp_path / "text.txt"
    text.write_text("".join(f"a dog number {i} sees the cat\n" for i in range(400)))
    command = [sys.executable, "-c", dedent(ADD), str(tmp_path / "index"), str(tiny_model), str(text)]
    committed = 0
    for count in commits:
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout
            said = [int(process.stdout.readline()) for _ in range(count)]
            process.kill()
        assert said[-1] == committed + 16 * count
        index = Index.open(tmp_path / "index", encoder)
        assert len(index) >= said[-1]
        committed = len(index)
        assert committed < 400
    assert index.add(read_documents(str(text))) == Changes(400 - committed, 0, committed)
    hits = index.search("a dog", 500)
    assert sorted(hit.id for hit in hits) == sorted(f"{text}:{i}" for i in range(1, 401))
