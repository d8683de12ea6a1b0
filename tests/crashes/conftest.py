"""What the tests of disturbed commands share."""

import pytest

from tests.crashes.commands import command_lines
from tests.crashes.work import make_inputs


@pytest.fixture(scope="session")
def command_words(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The words of commands that write, by a name for each."""
    return command_lines(make_inputs(tmp_path_factory.mktemp("commands") / "inputs"))
