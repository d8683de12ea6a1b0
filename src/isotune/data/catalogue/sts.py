"""Semantic textual similarity: pairs with scores.

An empty score means that the organisers left the pair unscored. The text is the official one, cased and
untokenised. The hub's copies have only the scored pairs, no subset names, and for STS12-16 and STS-B SentEval's
tokenised text, so that a score on them can differ a little.
"""

from __future__ import annotations

from types import MappingProxyType

from isotune.data.catalogue.dataset import Dataset, Split, splits_of
from isotune.data.rows import LabelledPair, ScoredPair, Sentence

TRACKS = MappingProxyType(
    {"1": "ar-ar", "2": "ar-en", "3": "es-es", "4a": "es-en", "4b": "es-en", "5": "en-en", "6": "tr-en"}
)
"""Of SemEval-2017: the languages of each."""

LANGUAGES = ("de", "en", "es", "fr", "it", "ja", "nl", "pl", "pt", "ru", "zh")

STS = (
    Dataset(
        name="sts12",
        licence="scores CC BY-SA 4.0; MSRpar, MSRvid: Microsoft Research's terms",
        source="Agirre et al. 2012, SemEval-2012 task 6",
        splits=splits_of(
            "sts12/test.tsv.gz",
            "a677897e09d75ba38db307f9c3d0c86c60c6942a274daf26e1c122c6035078f8",
            test=(3108, 3108),
        ),
        hub="mteb/sts12-sts",
    ),
    Dataset(
        name="sts13",  # without SMT, the text of which could not be given out
        licence="scores CC BY-SA 4.0; headlines: EMM's terms",
        source="Agirre et al. 2013, *SEM 2013 shared task",
        splits=splits_of(
            "sts13/test.tsv.gz",
            "a8e5fb19f70e933630b28ae5177f2eccabdde6d78c1094bce5d0a42c6089319e",
            test=(1500, 1500),
        ),
        hub="mteb/sts13-sts",
    ),
    Dataset(
        name="sts14",
        licence="scores CC BY-SA 4.0; images: CC BY-SA; headlines: EMM's terms; deft-*: DEFT's terms",
        source="Agirre et al. 2014, SemEval-2014 task 10",
        splits=splits_of(
            "sts14/test.tsv.gz",
            "4bd8e9d7a5aac33e2acf07057ca034e7dc32d8b402dd614a6a275efba25199d5",
            test=(3750, 3750),
        ),
        hub="mteb/sts14-sts",
    ),
    Dataset(
        name="sts15",
        licence="scores CC BY-SA 4.0; images: CC BY-SA; answers-forums: CC BY-SA 3.0; headlines: EMM's terms",
        source="Agirre et al. 2015, SemEval-2015 task 2",
        splits=splits_of(
            "sts15/test.tsv.gz",
            "b9948ac01bca743d7ecb8806f3649e70e696e4f7646e6b54935e87d57b02fd24",
            test=(8500, 3000),
        ),
        hub="mteb/sts15-sts",
    ),
    Dataset(
        name="sts16",
        licence="scores CC BY-SA 4.0; answer-answer, question-question: CC BY-SA 3.0; "
        "headlines: EMM's terms; postediting: CC BY 4.0; plagiarism: CC BY-NC-SA 2.0",
        source="Agirre et al. 2016, SemEval-2016 task 1",
        splits=splits_of(
            "sts16/test.tsv.gz",
            "19def1d2dcf0bd88d844110f44c6537032c94cf349c9b4dbcc2d025cfbaa769c",
            test=(9183, 1186),
        ),
        hub="mteb/sts16-sts",
    ),
    Dataset(
        name="stsb",
        licence="scores CC BY-SA 4.0; MSRpar, MSRvid: Microsoft Research's terms; each other subset its own",
        source="Cer et al. 2017, SemEval-2017 task 1",
        splits=splits_of(
            "stsb/stsb.tsv.gz",
            "f27953ff515e14e46b031b28bc9ba3c0c7f04f601506c65e6970ae87c37b02f4",
            train=(5749, 5749),
            dev=(1500, 1500),
            test=(1379, 1379),
        ),
        hub="mteb/stsbenchmark-sts",
    ),
    Dataset(
        name="sickr",
        licence="CC BY-NC-SA 3.0",
        source="Marelli et al. 2014, SemEval-2014 task 1",
        splits=splits_of(
            "sickr/sick.tsv.gz",
            "e8c005094f0d18a9c9e6ee7d4758863c58c0768b19a799559dfc03c33deddfce",
            inside={"dev": ("trial",)},
            train=(4500, 4500),
            dev=(500, 500),
            test=(4927, 4927),
        ),
        kinds=(ScoredPair, LabelledPair),
        scores=(1.0, 5.0),
        positive="entailment",
        # Not mteb/sickr-sts: its only split, "test", is all 9,927 pairs. Not RobZamp/sick: a later release of
        # 9,840 pairs. This one's card states these three sizes. Its main branch is a loading script, which
        # datasets no longer runs since version 4, hence the hub's own conversion; not yet tried online.
        hub="SemEvalWorkshop/sem_eval_2014_task_1@refs/convert/parquet",
    ),
    Dataset(
        # All of stsb, split anew: 953 pairs of its train and 148 of its dev are of stsb:test. Test has no scores.
        name="minbert-sts",
        licence="that of stsb",
        source="Cer et al. 2017; the splits of CS224N's minBERT project",
        splits=splits_of(
            "minbert/sts.tsv.gz",
            "5b61a3310a72a38c87b2b9cb32ad3c8608d6fc4cf722a2320010bca13c00f508",
            train=(6040, 6040),
            dev=(863, 863),
            test=(1725, 0),
        ),
    ),
    Dataset(
        name="stsb-open",  # the subsets of stsb that may be passed on; comes with the package
        licence="scores CC BY-SA 4.0; images: CC BY-SA; answers-forums: CC BY-SA 3.0; headlines: EMM's terms",
        source="Cer et al. 2017, SemEval-2017 task 1",
        splits=MappingProxyType(
            {
                "train": Split(
                    "stsb-open/train.txt",
                    "8ba4724160316cb1cbccdbda6c98d9aa7027b7e713af09c5e787b5b7152cecbb",
                    rows=5597,
                ),
                "dev": Split(
                    "stsb-open/dev.tsv",
                    "f792da5858725f41e237642f0d771faadff9e22ff4ceb89efc6344796d1d4c14",
                    rows=875,
                    gold=875,
                ),
                "test": Split(
                    "stsb-open/test.tsv",
                    "6b6a499a034ebd9049da6e22739c721cc4b076f559f6ff6f9f39d5ef8662358b",
                    rows=500,
                    gold=500,
                ),
            }
        ),
    ),
    *(
        Dataset(
            name=f"sts17-{track}",
            licence="CC BY-SA 4.0; 4b: the terms of WMT",
            source=f"Cer et al. 2017, SemEval-2017 task 1, track {track} ({languages})",
            splits=splits_of(
                "sts17/test.tsv.gz",
                "a00ed8a5b2adf66d32c97b7709c1256d500a5562114b8f7aa3ba291fa847d015",
                test=(500 if track == "6" else 250, 250),
            ),
            subset=f"track{track}.{languages}",
        )
        for track, languages in TRACKS.items()
    ),
    *(
        Dataset(
            name=f"stsb-{language}",
            licence="that of stsb",
            source=f"Cer et al. 2017; May 2021, translated by machine ({language})",
            splits=splits_of(
                "stsb_multi/stsb_multi.tsv.gz",
                "1c78cbdad9621fa5a602eded6b670cea071685f3cfd2649f80a80d75592a2ac6",
                train=(5749, 5749),
                dev=(1500, 1500),
                test=(1379, 1379),
            ),
            subset=language,
        )
        for language in LANGUAGES
    ),
    Dataset(
        name="sts-unlabelled",  # 89,192 sentences, duplicates kept: ConSERT, table 1
        licence="that of each of its datasets",
        source="Yan et al. 2021, ConSERT, section 4.1",
        splits=MappingProxyType({}),
        kinds=(Sentence,),
        union=("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr"),
    ),
)
