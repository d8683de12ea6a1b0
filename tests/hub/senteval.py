"""SentEval's archive of data, as SimCSE publishes it: senteval.tar."""

import io
import tarfile
from collections.abc import Mapping

from tests.hub.sentences import SIZES, scored, sentence

SUBSETS = {  # of SentEval's archive
    "12": ("MSRpar", "MSRvid", "SMTeuroparl", "surprise.OnWN", "surprise.SMTnews"),
    "13": ("FNWN", "headlines", "OnWN"),
    "14": ("deft-forum", "deft-news", "headlines", "images", "OnWN", "tweet-news"),
    "15": ("answers-forums", "answers-students", "belief", "headlines", "images"),
    "16": ("answer-answer", "headlines", "plagiarism", "postediting", "question-question"),
}


def senteval() -> bytes:
    """SentEval's own layout; an unscored pair has an empty line in place of a score."""
    files: dict[str, str] = {}
    for year, subsets in SUBSETS.items():
        for place, subset in enumerate(subsets):
            pairs = scored(12, 12 * place)
            folder = f"STS/STS{year}-en-test"
            files[f"{folder}/STS.input.{subset}.txt"] = "".join(f"{a}\t{b}\n" for a, b, _ in pairs)
            blank = year in ("15", "16")
            files[f"{folder}/STS.gs.{subset}.txt"] = "".join(
                f"{'' if blank and n % 4 == 3 else score}\n"
                for n, (_, _, score) in enumerate(pairs)
            )
    for split, start in (("train", 0), ("dev", 24), ("test", 36)):
        files[f"STS/STSBenchmark/sts-{split}.csv"] = "".join(
            f"main-captions\tMSRvid\t2012test\t{n:04d}\t{score:.3f}\t{a}\t{b}\n"
            for n, (a, b, score) in enumerate(scored(SIZES[split], start))
        )
    header = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
    for name, split, start in (
        ("train", "train", 0),
        ("trial", "dev", 24),
        ("test_annotated", "test", 36),
    ):
        rows = [
            f"{n + 1}\t{a}\t{b}\t{1 + 4 * score / 5:.1f}\t"
            f"{('NEUTRAL', 'ENTAILMENT', 'CONTRADICTION')[n % 3]}\n"
            for n, (a, b, score) in enumerate(scored(SIZES[split], start))
        ]
        files[f"SICK/SICK_{name}.txt"] = header + "".join(rows)
    for folder, first, second in (
        ("MR", "rt-polarity.pos", "rt-polarity.neg"),
        ("CR", "custrev.pos", "custrev.neg"),
        ("SUBJ", "subj.subjective", "subj.objective"),
        ("MPQA", "mpqa.pos", "mpqa.neg"),
    ):
        for place, name in enumerate((first, second)):
            files[f"{folder}/{name}"] = "".join(f"{sentence(20 * place + n)}\n" for n in range(20))
    for name, count in (("train", 24), ("dev", 12), ("test", 12)):
        files[f"SST/binary/sentiment-{name}"] = "".join(
            f"{sentence(n)}\t{n % 2}\n" for n in range(count)
        )
    for name, count in (("train_5500", 24), ("TREC_10", 12)):
        files[f"TREC/{name}.label"] = "".join(
            f"{('ABBR', 'DESC', 'ENTY', 'HUM', 'LOC', 'NUM')[n % 6]}:other {sentence(n)}\n"
            for n in range(count)
        )
    for name, count in (("train", 24), ("test", 12)):
        rows = [f"{n % 2}\t{n}\t{n + 1}\t{sentence(n)}\t{sentence(n + 1)}\n" for n in range(count)]
        files[f"MRPC/msr_paraphrase_{name}.txt"] = (
            "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n" + "".join(rows)
        )
    return tarred(files)


def tarred(files: Mapping[str, str]) -> bytes:
    """An archive of texts."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for path, text in files.items():
            member = tarfile.TarInfo(path)
            member.size = len(text.encode())
            tar.addfile(member, io.BytesIO(text.encode()))
    return archive.getvalue()
