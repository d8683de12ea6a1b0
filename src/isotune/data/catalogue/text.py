"""Plain text: sentences of Wikipedia, distinct and shuffled, without headings."""

from __future__ import annotations

from isotune.data.catalogue.dataset import Dataset, splits_of
from isotune.data.rows import Sentence

TEXT = (
    Dataset(
        name="enwiki",
        licence="CC BY-SA",
        source="the English Wikipedia's authors, 2014 and 2018",
        splits=splits_of(
            "wiki/enwiki_1m.txt.gz",
            "61f03d8c8f9f38904f789dcd4345d9654bbd93f8272b8fee8bb0c032dd030447",
            train=(1_000_000, 0),
        ),
        kinds=(Sentence,),
    ),
    Dataset(
        name="enwiki-100k",  # the first of enwiki
        licence="CC BY-SA",
        source="the English Wikipedia's authors, 2014 and 2018",
        splits=splits_of(
            "wiki/enwiki_100k.txt.gz",
            "7b85e6a830a1d5fe5fb34dc02aac158448dec263664c70cfdee41b65391a7b59",
            train=(100_000, 0),
        ),
        kinds=(Sentence,),
    ),
    Dataset(
        name="simplewiki",
        licence="CC BY-SA",
        source="the Simple English Wikipedia's authors",
        splits=splits_of(
            "wiki/simplewiki_500k.txt.gz",
            "f9bade5861f874e6c380a8a99779e7aa54b66d637ab99f75b921ff78156a4e0b",
            train=(500_000, 0),
        ),
        kinds=(Sentence,),
    ),
)
