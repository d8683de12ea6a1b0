"""The plane: similar sentences lie together, equal seeds give equal planes, and too few sentences are refused."""

import signal
from unittest.mock import patch

import numpy as np
import pytest

from isotune.errors import InputError
from isotune.use.map import Projection
from isotune.use.map.projection import project
from tests.crashes.commands import in_new_process


def groups(count: int = 40) -> np.ndarray:
    """Vectors of length 1 around three directions, `count` a group."""
    generator = np.random.default_rng(0)
    vectors = np.repeat(np.eye(3, 16) * 4, count, axis=0) + generator.normal(size=(3 * count, 16))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize("projection", ["tsne", "pca"])
def test_a_neighbour_in_the_plane_is_of_the_same_group(projection: Projection) -> None:
    plane = project(groups(), projection)
    assert plane.shape == (120, 2)
    assert plane.dtype == np.float32
    distances = np.linalg.norm(plane[:, None] - plane[None], axis=2) + 1e9 * np.eye(120)
    assert (distances.argmin(1) // 40 == np.arange(120) // 40).mean() > 0.95
    np.testing.assert_array_equal(plane, project(groups(), projection))


def press_in_a_tree() -> tuple[int, bool]:
    """Presses Ctrl-C once while openTSNE makes a tree: how often the tree was made, and whether the stop was heard."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell starts with "&" ignores it
    trees = 0
    least = np.min

    def minimum(values, *arguments, **options):  # type: ignore[no-untyped-def]
        nonlocal trees
        if np.shape(values) == (120, 2):  # the plane
            trees += 1
            if trees == 1:
                signal.raise_signal(signal.SIGINT)
        return least(values, *arguments, **options)

    with patch.object(np, "min", minimum):
        try:
            project(groups())
        except KeyboardInterrupt:
            return trees, True
    return trees, False


def test_ctrl_c_is_heard_between_two_steps() -> None:
    trees, heard = in_new_process(press_in_a_tree)  # which a raised exception crashes
    assert heard
    assert 1 < trees <= 5


def test_three_sentences_are_enough_and_two_are_not() -> None:
    assert project(groups(1)).shape == (3, 2)
    with pytest.raises(InputError, match="2 sentences: a map needs 3 or more"):
        project(groups(1)[:2])


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isotune.errors.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"not installed: openTSNE; pip install 'isotune\[map\]'"):
        project(groups())
    assert project(groups(), "pca").shape == (120, 2)
    with pytest.raises(InputError, match="unknown projection 'umap'"):
        project(groups(), "umap")  # type: ignore[arg-type]
