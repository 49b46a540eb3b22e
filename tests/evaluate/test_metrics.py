"""Metrics: against independent computations, against libraries, and what holds for all outputs."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import sacrebleu
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, precision_recall_fscore_support

from attune.emotion.taxonomy import EMOTIONS
from attune.errors import DataError, SettingsError
from attune.evaluate import gpt2, overlap
from attune.evaluate.diversity import Grams, dist_at
from attune.evaluate.emotions import confusion
from attune.evaluate.metrics import METRICS, ORDER, Summed, in_order, measure
from attune.evaluate.outputs import Item, Outputs

WORDS = st.lists(st.sampled_from(["i", "am", "so", "glad", "sorry", ".", "!", "?", "you", "dog"]), max_size=9).map(
    " ".join
)
REPLIES = st.lists(WORDS, min_size=1, max_size=25)
PAIRS = st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=25)
LABELS = st.lists(st.tuples(st.sampled_from(EMOTIONS[:5]), st.sampled_from(EMOTIONS[:6])), min_size=1, max_size=60)


def said(replies: Sequence[str]) -> Outputs:
    return Outputs([Item(prediction=reply) for reply in replies])


def answered(pairs: Sequence[tuple[str, str]]) -> Outputs:
    return Outputs([Item(prediction=reply, reference=reference) for reply, reference in pairs])


def value(outputs: Outputs, name: str) -> float | None:
    return measure(outputs, [name], resamples=20)[0][name].value


def test_every_metric_says_what_it_is() -> None:
    for name, metric in METRICS.items():
        assert metric.name == name
        assert metric.title
        assert metric.about
        assert metric.needs
        assert metric.better in ("higher", "lower", "neither")
        assert metric.aggregation
        assert metric.agree <= {"protocol", "split", "n", "text", "vocabulary", "decoding"}
    assert set(ORDER) == set(METRICS)


def test_an_unknown_metric_is_answered_with_the_nearest() -> None:
    with pytest.raises(SettingsError, match="did you mean 'dist_1'"):
        measure(said(["a"]), ["dist1"])


def test_a_new_metric_is_one_registration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(METRICS, "_entries", dict(METRICS._entries))
    questions = Summed(
        name="questions",
        title="questions",
        about="replies that ask, in percent",
        needs=frozenset({"prediction"}),
        statistics=lambda outputs: np.array([["?" in words, 1] for words in outputs.words], dtype=float),
        combine=lambda sums: 100 * sums[..., 0] / sums[..., 1],
    )
    METRICS.register("questions")(questions)
    assert measure(said(["why ?", "oh ."]))[0]["questions"].value == 50
    assert in_order(METRICS)[-1] == "questions"


# --- dist-n ---------------------------------------------------------------------------------------


def plain_dist(replies: Sequence[str], n: int) -> float | None:
    grams = [tuple(reply.split()[i : i + n]) for reply in replies for i in range(len(reply.split()) - n + 1)]
    return 100 * len(set(grams)) / len(grams) if grams else None


@settings(max_examples=60, deadline=None)
@given(REPLIES, st.sampled_from([1, 2]))
def test_dist_is_distinct_over_all_in_percent(replies: list[str], n: int) -> None:
    found, expected = value(said(replies), f"dist_{n}"), plain_dist(replies, n)
    assert found == (None if expected is None else pytest.approx(expected))
    assert found is None or 0 < found <= 100


def test_no_bigram_stands_across_two_replies() -> None:
    assert value(said(["a b", "b a"]), "dist_2") == 100
    assert value(said(["a b", "a b"]), "dist_2") == 50


def test_bigrams_are_pairs_not_joined_strings() -> None:
    assert value(said(["ab c", "a bc"]), "dist_2") == 100


@settings(max_examples=30, deadline=None)
@given(REPLIES, st.randoms(use_true_random=False))
def test_the_order_of_replies_does_not_matter(replies: list[str], rng: random.Random) -> None:
    other = rng.sample(replies, len(replies))
    for name in ("dist_1", "dist_2", "distinct_replies", "mean_length"):
        assert value(said(replies), name) == value(said(other), name)


@settings(max_examples=30, deadline=None)
@given(REPLIES)
def test_the_jackknife_leaves_out_whole_replies(replies: list[str]) -> None:
    grams = Grams.of([reply.split() for reply in replies], 1)
    assume(len(grams.types))
    expected = {plain_dist(replies[:i] + replies[i + 1 :], 1) for i in range(len(replies))} - {None}
    assert set(np.round(grams.without_groups(0), 9)) <= {round(one, 9) for one in expected if one is not None}


def test_dist_at_a_thousand_needs_a_thousand() -> None:
    replies = [f"w{i} x" for i in range(999)]
    assert value(said(replies), "dist_1_at_1000") is None
    assert value(said([*replies, "y"]), "dist_1_at_1000") == pytest.approx(plain_dist([*replies, "y"], 1))


def test_dist_at_a_size_is_the_mean_over_samples() -> None:
    replies = [f"w{i % 30} w{i % 7}" for i in range(200)]
    score = dist_at(said(replies), 1, seed=0, size=50)
    rng = random.Random(5)
    expected = np.mean([plain_dist(rng.sample(replies, 50), 1) or 0 for _ in range(2000)])
    assert score.value == pytest.approx(expected, rel=0.02)
    assert score.low is not None
    assert score.high is not None
    assert score.low < score.value < score.high
    assert dist_at(said(replies), 1, seed=0, size=50) == score


def test_too_few_replies_for_independent_samples_give_no_interval() -> None:
    score = dist_at(said([f"w{i % 30}" for i in range(80)]), 1, seed=0, size=50)
    assert score.value is not None
    assert score.low is None


def test_dist_falls_with_the_number_of_replies() -> None:
    replies = [f"w{i % 400} w{(i * 7) % 300}" for i in range(3000)]
    scores, _ = measure(said(replies), ["dist_1", "dist_1_at_1000"], resamples=20)
    assert scores["dist_1_at_1000"].value > scores["dist_1"].value  # type: ignore[operator]


def test_copied_and_distinct_replies_and_length() -> None:
    outputs = Outputs(
        [Item(prediction=text) for text in ("oh no !", "oh  no !", "i see .")], training=frozenset({"oh no !"})
    )
    assert value(outputs, "copied_replies") == pytest.approx(200 / 3)
    assert value(outputs, "distinct_replies") == pytest.approx(200 / 3)
    assert value(outputs, "mean_length") == 3
    assert value(said(["oh no !"]), "copied_replies") is None


# --- BLEU and sentence embeddings -----------------------------------------------------------------


def plain_bleu(pairs: Sequence[tuple[str, str]], order: int) -> float:
    """Corpus-level cumulative BLEU without smoothing, written out."""
    right, total = [0] * order, [0] * order
    length = reference_length = 0
    for reply, reference in pairs:
        words, gold = reply.split(), reference.split()
        length, reference_length = length + len(words), reference_length + len(gold)
        for n in range(1, order + 1):
            mine = Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))
            theirs = Counter(tuple(gold[i : i + n]) for i in range(len(gold) - n + 1))
            right[n - 1] += sum((mine & theirs).values())
            total[n - 1] += sum(mine.values())
    if not all(right):
        return 0.0
    brevity = 1.0 if length >= reference_length else math.exp(1 - reference_length / length)
    return 100 * brevity * math.exp(sum(math.log(r / t) for r, t in zip(right, total, strict=True)) / order)


@settings(max_examples=60, deadline=None)
@given(PAIRS)
def test_avg_bleu_is_the_mean_of_four_corpus_scores(pairs: list[tuple[str, str]]) -> None:
    by_hand = np.mean([plain_bleu(pairs, n) for n in range(1, 5)])
    assert value(answered(pairs), "avg_bleu") == pytest.approx(by_hand, abs=1e-9)


def test_avg_bleu_agrees_with_the_library() -> None:
    rng = random.Random(0)
    words = ["i", "am", "so", "glad", "sorry", ".", "!", "?", "you", "dog", "to", "hear", "that"]
    pairs = [
        (" ".join(rng.choices(words, k=rng.randint(1, 12))), " ".join(rng.choices(words, k=9))) for _ in range(200)
    ]
    replies, references = (list(one) for one in zip(*pairs, strict=True))
    scores = [
        sacrebleu.BLEU(max_ngram_order=n, tokenize="none", smooth_method="none", force=True)
        .corpus_score(replies, [references])
        .score
        for n in range(1, 5)
    ]
    assert value(answered(pairs), "avg_bleu") == pytest.approx(np.mean(scores))
    assert value(answered(pairs), "sacrebleu") == pytest.approx(
        sacrebleu.corpus_bleu(replies, [references], force=True).score
    )


@settings(max_examples=20, deadline=None)
@given(REPLIES)
def test_the_reference_itself_scores_a_hundred(replies: list[str]) -> None:
    assume(any(len(reply.split()) >= 4 for reply in replies))
    assert value(answered([(reply, reply) for reply in replies]), "avg_bleu") == pytest.approx(100)


def test_sacrebleu_carries_its_own_signature_and_says_what_text_it_saw() -> None:
    given, _ = measure(answered([("i see .", "i see .")]), ["sacrebleu"], resamples=20)
    assert (
        given["sacrebleu"].signature
        == f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{sacrebleu.__version__}|input:as-given"
    )
    seen = Outputs(
        [Item(prediction="i see .", text="I see it all.", reference="i see .", raw_reference="I see it all.")]
    )
    score = measure(seen, ["sacrebleu"], resamples=20)[0]["sacrebleu"]
    assert score.value == pytest.approx(100)
    assert score.signature is not None
    assert score.signature.endswith("input:as-seen")


class Encoder:
    """Counts how many texts it was given; a text's vector is its first letter."""

    texts: list[str] = []

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        self.texts.extend(texts)
        return np.array([[1.0, 0.0] if text.startswith("a") else [0.0, 1.0] for text in texts], dtype=np.float32)


def test_ses_is_the_mean_cosine_and_references_are_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = Encoder()
    encoder.texts = []
    monkeypatch.setattr(overlap, "part_at_hand", lambda name: None)
    monkeypatch.setattr("attune.knowledge.sentences.load_encoder", lambda: encoder)
    assert value(answered([("a x", "a y"), ("a x", "b z")]), "ses") == pytest.approx(0.5)
    assert sorted(encoder.texts) == ["a x", "a y", "b z"]
    assert value(answered([("b w", "a y"), ("b w", "b z")]), "ses") == pytest.approx(0.5)
    assert sorted(encoder.texts) == ["a x", "a y", "b w", "b z"]


def test_without_its_part_ses_is_not_computed_and_says_so() -> None:
    scores, notes = measure(answered([("a", "a")]), ["ses"], resamples=20)
    assert scores["ses"].value is None
    assert notes == ["ses: needs the part 'minilm' (attune setup minilm)"]


# --- emotions -------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(LABELS)
def test_accuracy_and_weighted_scores_are_scikit_learns(pairs: list[tuple[str, str]]) -> None:
    gold, predicted = zip(*pairs, strict=True)
    outputs = Outputs([Item(emotion=one, predicted_emotion=other) for one, other in pairs])
    scores, _ = measure(
        outputs, ["emotion_accuracy", "emotion_precision", "emotion_recall", "emotion_f1"], resamples=20
    )
    expected = precision_recall_fscore_support(gold, predicted, average="weighted", zero_division=0)[:3]
    assert scores["emotion_accuracy"].value == pytest.approx(100 * accuracy_score(gold, predicted))
    for name, one in zip(("precision", "recall", "f1"), expected, strict=True):
        assert scores[f"emotion_{name}"].value == pytest.approx(100 * one)
    assert confusion(outputs).sum() == len(pairs)
    assert np.trace(confusion(outputs)) == sum(one == other for one, other in pairs)


# --- likelihood -----------------------------------------------------------------------------------


def likely(text_form: str = "raw") -> Outputs:
    items = [
        Item(nll=6.0, tokens=3, raw_reference="Oh no!", unk_bytes=0),
        Item(nll=2.0, tokens=1, raw_reference="Café au lait.", unk_bytes=4),
    ]
    return Outputs(items, text_form=text_form)


def test_perplexities_are_what_they_say() -> None:
    scores, _ = measure(likely(), ["ppl_token", "ppl_reply_macro", "ppl_word", "bits_per_byte"], resamples=20)
    nats = 8.0 + 4 * math.log(256)
    assert scores["ppl_token"].value == pytest.approx(math.exp(8 / 4))
    assert scores["ppl_reply_macro"].value == pytest.approx(math.exp((6 / 3 + 2 / 1) / 2))
    assert scores["ppl_word"].value == pytest.approx(math.exp(nats / (2 + 3 + 2)))
    assert scores["bits_per_byte"].value == pytest.approx(nats / math.log(2) / (6 + 14))


def test_a_hidden_byte_costs_eight_bits() -> None:
    free = Outputs([Item(nll=5.0, tokens=2, raw_reference="x" * 10)])
    hidden = Outputs([Item(nll=5.0, tokens=2, raw_reference="x" * 10, unk_bytes=10)])
    assert value(hidden, "bits_per_byte") == pytest.approx(value(free, "bits_per_byte") + 8)  # type: ignore[operator]
    assert value(hidden, "ppl_token") == value(free, "ppl_token")


def test_ppl_per_gpt2_token_counts_one_end_a_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attune.evaluate.likelihood.count_tokens", lambda texts: [3, 5])
    assert value(likely(), "ppl_gpt2_token") == pytest.approx(math.exp((8 + 4 * math.log(256)) / (3 + 5 + 2)))


def test_ppl_per_gpt2_token_is_only_for_systems_of_raw_text() -> None:
    scores, notes = measure(likely("normal-form"), ["ppl_gpt2_token", "bits_per_byte"], resamples=20)
    assert scores["ppl_gpt2_token"].value is None
    assert scores["bits_per_byte"].value is not None
    assert notes == ["ppl_gpt2_token: 'nll' is of normal-form text, not of the raw reference"]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.floats(0.1, 300), st.integers(1, 60)), min_size=1, max_size=30))
def test_all_metrics_that_can_be_computed_lie_inside_their_interval(pairs: list[tuple[float, int]]) -> None:
    items = [
        Item(prediction="i see it .", reference="i see .", nll=nll, tokens=n, raw_reference="I see.")
        for nll, n in pairs
    ]
    scores, _ = measure(Outputs(items), resamples=30)
    for score in scores.values():
        if score.low is not None:
            assert score.low <= score.value <= score.high  # type: ignore[operator]
    assert scores["ppl_token"].value >= 1  # type: ignore[operator]


# --- GPT-2 tokens ---------------------------------------------------------------------------------


def trained_bpe() -> tuple[object, dict[bytes, int]]:
    """A byte-level BPE trained here, and its tokens as ranked bytes."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=330, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(
        ["the dog and the other dog said that they thought so too", "I'm so sorry to hear that!"] * 3, trainer
    )
    byte = {char: number for number, char in gpt2._shown_bytes().items()}
    return tokenizer, {bytes(byte[c] for c in token): rank for token, rank in tokenizer.get_vocab().items()}


def test_ranked_bytes_give_the_tokenizer_that_they_came_from() -> None:
    tokenizer, ranks = trained_bpe()
    ours = gpt2.byte_level_bpe(ranks)

    @settings(max_examples=100, deadline=None)
    @given(
        st.text(max_size=30)
        | st.lists(st.sampled_from(["the", "dog", " and", "thought", "sorry", "é", "!"])).map("".join)
    )
    def same(text: str) -> None:
        assert ours.encode(text).ids == tokenizer.encode(text).ids  # type: ignore[attr-defined]

    same()


def test_a_damaged_list_of_ranks_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "gpt2.tiktoken"
    path.write_text("IQ== 0\nnot a rank\n")
    with pytest.raises(DataError, match=r"gpt2\.tiktoken:2: expected a base64 token and its rank"):
        gpt2._read_ranks(path)


@pytest.mark.slow
@pytest.mark.usefixtures("real_cache")
def test_gpt2_counts_known_strings() -> None:
    """Counts that GPT-2's own tokenizer gives."""
    from attune.parts import locate

    locate("gpt2-bpe")
    known = {
        "Hello world, how's it going?": [15496, 995, 11, 703, 338, 340, 1016, 30],
        "naïve café 😀": [2616, 38776, 40304, 30325, 222],
    }
    tokenizer = gpt2.gpt2_tokenizer()
    assert {text: tokenizer.encode(text).ids for text in known} == known
    assert gpt2.count_tokens([*known, ""]) == [8, 5, 0]
    assert tokenizer.get_vocab_size() == 50256


# --- all of test ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_all_of_a_test_split_is_measured_in_under_a_minute_of_one_core() -> None:
    import time

    rng = random.Random(0)
    words = [f"w{i}" for i in range(2000)]
    text = [" ".join(rng.choices(words, k=rng.randint(3, 20))) for _ in range(5259)]
    items = [
        Item(
            prediction=text[-i], reference=text[i], text=text[-i], raw_reference=text[i], nll=40.0, tokens=12,
            emotion=rng.choice(EMOTIONS), predicted_emotion=rng.choice(EMOTIONS),
        )
        for i in range(5259)
    ]  # fmt: skip
    start = time.process_time()
    measure(Outputs(items, training=frozenset(text)))
    assert time.process_time() - start < 60
