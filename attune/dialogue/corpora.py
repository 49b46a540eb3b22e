"""Corpora and lexicons that `attune data get` can fetch, each from its official source and with its licence."""

from __future__ import annotations

from dataclasses import dataclass

from attune.registry import Registry


@dataclass(frozen=True, slots=True)
class Corpus:
    """Something to fetch. `sha256` lists the known releases of the file; none means that none is published."""

    name: str
    about: str
    url: str
    licence: str
    page: str  # where a person finds it
    folder: str  # its name inside a data folder
    megabytes: float
    sha256: tuple[str, ...] = ()


CORPORA: Registry[Corpus] = Registry("corpus")

for _corpus in (
    Corpus(
        "empathetic-dialogues",
        "25k dialogues about 32 emotions (seed 003)",
        "https://dl.fbaipublicfiles.com/parlai/empatheticdialogues/empatheticdialogues.tar.gz",
        "CC BY-NC 4.0: not for commercial use, name the authors",
        "https://github.com/facebookresearch/EmpatheticDialogues",
        "empathetic_dialogues",
        28,
        (
            "56f234d77b7dd1f005fd365bb17769cfe346c3c84295b69bc069c8ccb83be03d",
            "240c492cb6199a315722f716bfcc14f13ea6605f1cec67349153b606be92f6f2",
        ),
    ),
    Corpus(
        "dailydialog",
        "13k everyday dialogues with seven emotions",
        "http://yanran.li/files/ijcnlp_dailydialog.zip",
        "CC BY-NC-SA 4.0: not for commercial use, share alike, name the authors",
        "http://yanran.li/dailydialog",
        "daily_dialog",
        4.5,
    ),
    Corpus(
        "cornell-movie",
        "dialogues of 617 films, with who speaks",
        "https://www.cs.cornell.edu/~cristian/data/cornell_movie_dialogs_corpus.zip",
        "a public research release without a licence; cite Danescu-Niculescu-Mizil and Lee (2011)",
        "https://www.cs.cornell.edu/~cristian/Cornell_Movie-Dialogs_Corpus.html",
        "cornell_movie",
        9.9,
        ("3bde8a571f615201bc2d2453e22878090719638592f774720eddec739de8c900",),
    ),
    Corpus(
        "conceptnet5",
        "ConceptNet 5.7, all languages",
        "https://s3.amazonaws.com/conceptnet/downloads/2019/edges/conceptnet-assertions-5.7.0.csv.gz",
        "CC BY-SA 4.0: share alike, name the authors",
        "https://github.com/commonsense/conceptnet5/wiki/Downloads",
        "conceptnet5",
        475,
    ),
    Corpus(
        "nrc-vad",
        "valence, arousal and dominance of 20k words",
        "https://saifmohammad.com/WebDocs/Lexicons/NRC-VAD-Lexicon.zip",
        "for research only, not to be passed on; commercial use by agreement with the authors",
        "https://saifmohammad.com/WebPages/nrc-vad.html",
        "nrc_vad",
        25,
    ),
    Corpus(
        "glove-6b",
        "GloVe word vectors, 400k words, 50 to 300 numbers",
        "https://nlp.stanford.edu/data/glove.6B.zip",
        "Public Domain Dedication and License 1.0",
        "https://nlp.stanford.edu/projects/glove/",
        "glove",
        862,
    ),
    Corpus(
        "20newsgroups",
        "posts of 20 newsgroups by date, for TopicPrepend-1",
        "http://qwone.com/~jason/20Newsgroups/20news-bydate.tar.gz",
        "public, without a licence",
        "http://qwone.com/~jason/20Newsgroups/",
        "20newsgroups",
        14,
        ("8f1b2514ca22a5ade8fbb9cfa5727df95fa587f4c87b786e15c759fa66d95610",),
    ),
):
    CORPORA.register(_corpus.name)(_corpus)
