import pytest

from isotune.report.facts import next_steps


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("search in this text by meaning:", "Search in this text by meaning:"),
        ("runs/first/answers.jsonl has the rows", "runs/first/answers.jsonl has the rows."),
        ("isotune: a name", "isotune: a name."),
    ],
)
def test_a_sentence_before_commands_keeps_the_paths_that_it_begins_with(
    line: str, words: str
) -> None:
    (step,) = next_steps([line, "  isotune search"])
    assert step.words == words
    assert step.commands == ["isotune search"]
