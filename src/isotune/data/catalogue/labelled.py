"""Labelled pairs and labelled sentences: inference, paraphrase, sentiment, acceptability, kinds of text and question.

A label is read as its file has it. Splits that are given out without labels are left out, and so are rows whose
label is empty where labels are asked for.
"""

from __future__ import annotations

from types import MappingProxyType

from isotune.data.catalogue.dataset import Dataset, splits_of
from isotune.data.rows import LabelledPair, LabelledSentence

_QUORA = "Quora's terms (non-commercial)"
_TRANSFER = (  # SentEval's tasks without a split: name, sentences, what to cite
    ("mr", 10662, "Pang and Lee 2005, movie reviews"),
    ("cr", 3775, "Hu and Liu 2004, customer reviews"),
    ("subj", 10000, "Pang and Lee 2004, subjectivity"),
    ("mpqa", 10606, "Wiebe et al. 2005, opinion polarity"),
)

LABELLED = (
    Dataset(
        name="nli",  # a tenth of what SNLI and MNLI have to train on, and New Protocols; without the pairs of snli
        licence="SNLI CC BY-SA 4.0; MNLI: OANC, CC BY-SA 3.0, CC BY 3.0 by genre; New Protocols CC BY-SA 3.0",
        source="Bowman et al. 2015 (SNLI); Williams et al. 2018 (MNLI); Bowman et al. 2020 (New Protocols)",
        splits=splits_of(
            "nli/nli_train_union.tsv.gz",
            "53d7d0a215c17091cf1c55cae4ccd33c0e4a9a1d263f403d6f8bd150d9afd7c9",
            inside={"dev": ("val",)},
            train=(130352, 130352),
            dev=(13910, 13910),
        ),
        kinds=(LabelledPair,),
        positive="entailment",
    ),
    Dataset(
        name="snli",
        licence="CC BY-SA 4.0",
        source="Bowman et al. 2015",
        splits=splits_of(
            "nli/snli_devtest_raw.tsv.gz",
            "86f2ad7d302a3bd590ab68719c44b83d12593603ef101eecf8cc05b86add1cb8",
            dev=(9842, 9842),
            test=(9824, 9824),
        ),
        kinds=(LabelledPair,),
        positive="entailment",
    ),
    Dataset(
        name="qqp",  # qqp-10k without the pairs of minbert-quora:dev, to train beside it
        licence=_QUORA,
        source="Iyer et al. 2017, Quora Question Pairs",
        splits=splits_of(
            "qqp/qqp_train_excl_minbertdev.tsv.gz",
            "7e1fe0730034d580cf66f5d2063006c97bc50a7de505b4e2b0165dc3c3040f6f",
            train=(18851, 18851),
        ),
        kinds=(LabelledPair,),
        positive="1",
    ),
    Dataset(
        name="qqp-10k",  # a name of its own: all of qqp:train is in these two splits
        licence=_QUORA,
        source="Iyer et al. 2017, Quora Question Pairs",
        splits=splits_of(
            "qqp/qqp_10k_devtest.tsv.gz",
            "60034e0f1ca329ae0c2de19715acde2d305558a42c97a8ccd20de185c383c9ce",
            dev=(10000, 10000),
            test=(10000, 10000),
        ),
        kinds=(LabelledPair,),
        positive="1",
    ),
    Dataset(
        name="minbert-quora",  # two broken lines of the Quora release have no label
        licence=_QUORA,
        source="Iyer et al. 2017, Quora Question Pairs; the dev split of CS224N's minBERT project",
        splits=splits_of(
            "minbert/quora.tsv.gz",
            "f88f03919d8c30fdde1b7b3c20f1ec13d1773ae89cfcfea4971ce28864d38768",
            dev=(20214, 20212),
        ),
        kinds=(LabelledPair,),
        positive="1",
        labels=MappingProxyType({"0.0": "0", "1.0": "1"}),
    ),
    Dataset(
        name="mrpc",
        licence="Microsoft Research's terms (research use)",
        source="Dolan and Brockett 2005",
        splits=splits_of(
            "mrpc/mrpc.tsv.gz",
            "dd645af110c4ab7cab37f84132805f861098a3d711ef4b3223f5258a673a58f6",
            train=(4076, 4076),
            test=(1725, 1725),
        ),
        kinds=(LabelledPair,),
        positive="1",
    ),
    Dataset(
        name="rte",
        licence="research use",
        source="Wang et al. 2019, GLUE",
        splits=splits_of(
            "glue/rte.tsv.gz",
            "f826a63a3138d9b4334b51bb5aa1072a44337eb7147c672485dc1fd9333ad944",
            train=(2490, 2490),
            dev=(277, 277),
        ),
        kinds=(LabelledPair,),
        positive="entailment",
    ),
    Dataset(
        name="qnli",
        licence="CC BY-SA 4.0",
        source="Rajpurkar et al. 2016 (SQuAD); Wang et al. 2019, GLUE",
        splits=splits_of(
            "glue/qnli_dev.tsv.gz",
            "dac367e68588c5eeaa214689d68ce29aee512cfc0093c91ebaf20b6ebe68c849",
            dev=(5463, 5463),
        ),
        kinds=(LabelledPair,),
        positive="entailment",
    ),
    Dataset(
        name="sst5",
        licence="research use",
        source="Socher et al. 2013, as SentEval has it",
        splits=splits_of(
            "senteval_transfer/sst5.tsv.gz",
            "9e410b7e49110de142437fff48ddaf7fb101099190df0cca49ac7bef8aa1d103",
            train=(8544, 8544),
            dev=(1101, 1101),
            test=(2210, 2210),
        ),
        kinds=(LabelledSentence,),
    ),
    Dataset(
        name="sst2",  # the phrases of the training sentences are in train too
        licence="research use",
        source="Socher et al. 2013, as SentEval has it",
        splits=splits_of(
            "senteval_transfer/sst2.tsv.gz",
            "b9de5ca5c66e341a771c0392c5980df7a18c98b48eff8d58b2c06dead10fa61b",
            train=(67349, 67349),
            dev=(872, 872),
            test=(1821, 1821),
        ),
        kinds=(LabelledSentence,),
    ),
    Dataset(
        name="cfimdb",
        licence="course material; movie reviews",
        source="Kaushik et al. 2020; the splits of CS224N's minBERT project",
        splits=splits_of(
            "minbert/cfimdb.tsv.gz",
            "547cd6124a4de3433c7c013a1417aa1fbf9b66502d1aef39f42de741704ea725",
            train=(1707, 1707),
            dev=(245, 245),
        ),
        kinds=(LabelledSentence,),
    ),
    Dataset(
        name="cola",  # GLUE's dev split is both of the release's, in and out of domain
        licence="research use",
        source="Warstadt et al. 2019",
        splits=splits_of(
            "glue/cola.tsv.gz",
            "1b533d90492682b07593f59a1021d7ac2b45aee525ca0bd81a229eadefdb73cd",
            inside={"dev": ("dev_in", "dev_out")},
            train=(8551, 8551),
            dev=(1043, 1043),
        ),
        kinds=(LabelledSentence,),
    ),
    *(
        Dataset(
            name=name,
            licence="research use",
            source=f"{source}, as SentEval has it",
            splits=splits_of(
                "senteval_transfer/mr_cr_subj_mpqa.tsv.gz",
                "dab5169936cb0d357f01ebcc4533a35aa4528ee4aeb6a2a420b08755250c73a8",
                inside={"train": ("all",)},
                train=(sentences, sentences),
            ),
            kinds=(LabelledSentence,),
            subset=name.upper(),
            blank=".",  # as SentEval; cr has four, mpqa three
        )
        for name, sentences, source in _TRANSFER
    ),
    Dataset(
        name="trec",
        licence="research use",
        source="Li and Roth 2002, as SentEval has it",
        splits=splits_of(
            "senteval_transfer/trec.tsv.gz",
            "35f9a9501ac4081a803ceba8c29491c10c80f33567abeeaea9d79b3cb8f4e46d",
            train=(5452, 5452),
            test=(500, 500),
        ),
        kinds=(LabelledSentence,),
    ),
)
