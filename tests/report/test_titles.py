import pytest

from isotune.report.titles import score_title, score_titles


@pytest.mark.parametrize(
    ("score", "title"),
    [
        ("retrieval:test.jsonl,question,passage", "search in test.jsonl"),
        (
            "retrieval:/a b/c/test.jsonl,question,passage-recall@10",
            "search in test.jsonl (Recall@10)",
        ),
        ("retrieval:q.jsonl.gz,among=/x/all.tsv,text", "search in q.jsonl.gz among all.tsv"),
        ("retrieval:nfcorpus:dev", "search in nfcorpus:dev"),
        ("classification:/r/rev.csv,text,stars-macro-f1", "labels of rev.csv (macro F1)"),
        ("geometry:stsb:dev-mean_cosine", "geometry of stsb:dev (mean cosine)"),
        ("pairs.csv,first,second,grade", "pairs.csv"),
        ("/a/x.csv-new.csv", "x.csv-new.csv"),
        ("support, part 2.tsv", "support, part 2.tsv"),
        ("mrpc-f1", "MRPC (F1)"),
        ("stsb", "STS-B"),
        ("sts", "STS average"),
        ("stsb-open:dev", "stsb-open:dev"),
        ("rows set apart", "rows set apart"),
        ("rows set apart-mrr@10", "rows set apart (MRR@10)"),
        ("alignment", "alignment"),
        ("", ""),
    ],
)
def test_a_score_has_a_title_for_readers(score: str, title: str) -> None:
    assert score_title(score) == title


def test_scores_of_one_title_keep_their_names() -> None:
    same = ["retrieval:a.jsonl,x,y", "retrieval:a.jsonl,y,x"]
    assert score_titles([*same, "stsb"]) == {**{name: name for name in same}, "stsb": "STS-B"}
