from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file

from attune.dialogue.types import Dialogue, Example, Turn
from attune.emotion.taxonomy import EMOTIONS
from attune.errors import DataError, MissingError, SettingsError
from attune.generate.controls import ContextControls
from attune.generate.saying import Ask, Control
from attune.generate.settings import Decoding
from attune.generate.systems import open_system
from attune.models import RECIPES, SYSTEMS
from attune.models.adapters import rank_axis
from attune.models.pretrained.lower import LowerStates
from attune.models.pretrained.speaking import IGNORE
from attune.train.attune import crossfit
from attune.train.recipes import load_recipe, merge
from attune.train.trainer import train
from tests.interrupting import killed_after
from tests.pretrained import part
from tests.systems import small_system, test_examples


@pytest.fixture
def system(dialogues: list[Dialogue]) -> Any:
    return small_system("attune", dialogues, concepts=3)


def test_whole_dialogues_have_the_likelihood_of_their_examples(system: Any, dialogues: list[Dialogue]) -> None:
    examples = test_examples(dialogues)
    items = system.codec.encode_dialogues(examples, training=False)
    assert len(items) == len(dialogues)
    tokens = sum(len(item.response) for item in items)
    with torch.inference_mode():
        whole = float(system.model.losses(system.codec.collate(items), tokens, len(items))["nll"]) * tokens
    found = system.nll(examples)
    assert sum(one.tokens for one in found) == tokens
    assert whole == pytest.approx(sum(one.nll for one in found), rel=1e-5)


def test_targets_are_the_listener_turns_and_their_ends(system: Any, dialogues: list[Dialogue]) -> None:
    (item,) = system.codec.encode_dialogues(test_examples(dialogues[:1]), training=False)
    said = system.codec.tokenizer.decode(item.response, skip_special_tokens=False)
    assert said == "Congratulations! What will you do there?<|im_end|>Lovely!<|im_end|>"
    assert (item.ids[1:][item.target[:-1] != IGNORE] == item.response[:-1]).all()


def test_the_emotion_is_to_be_told_where_a_control_is_about_to_begin(system: Any, dialogues: list[Dialogue]) -> None:
    examples = test_examples(dialogues[:1])
    (item,) = system.codec.encode_dialogues(examples, training=False)
    places = (item.felt != IGNORE).nonzero()[0]
    assert len(places) == len(examples) == 2
    before = [system.codec.tokenizer.decode(item.ids[: place + 1], skip_special_tokens=False) for place in places]
    assert all(text.endswith("<|im_start|>assistant") for text in before)
    assert set(item.felt[places]) == {system.codec.prompts.feelings[EMOTIONS.index(str(examples[0].emotion))]}
    (unknown,) = system.codec.encode_dialogues([replace(e, emotion=None) for e in examples], training=False)
    assert (unknown.felt == IGNORE).all()
    terms = system.model.losses(system.codec.collate([item, unknown]), 1, 2)
    assert terms["emotion"] > 0
    assert 0 <= float(terms["right"]) <= 0.5


def test_with_all_turns_the_speaker_is_a_target_too(dialogues: list[Dialogue]) -> None:
    system = small_system("attune", dialogues, all_turns=True)
    examples = test_examples(dialogues[:1])
    (training,) = system.codec.encode_dialogues(examples, training=True)
    assert "I'll teach maths.<|im_end|>" in system.codec.tokenizer.decode(training.response, skip_special_tokens=False)
    (valid,) = system.codec.encode_dialogues(examples, training=False)
    assert "maths" not in system.codec.tokenizer.decode(valid.response)


def test_unlikelihood_teaches_not_to_go_on_as_most_replies_do(dialogues: list[Dialogue]) -> None:
    system = small_system("attune", dialogues, unlikelihood=0.5, emotion_weight=0.0)
    said = ["I am sorry."] * 19 + ["I am glad."]
    examples = [
        Example(f"d{i}:2", (Turn("speaker", f"My dog {i}"),), Turn("listener", text)) for i, text in enumerate(said)
    ]
    items = system.codec.encode_dialogues(examples, training=True)
    ids = system.codec.prompts.ids
    first = next(i for i, (one, other) in enumerate(zip(ids(said[0]), ids(said[-1]), strict=False)) if one != other)
    assert all((item.common == IGNORE).all() for item in items[:-1])
    (place,) = (items[-1].common != IGNORE).nonzero()[0]
    assert items[-1].common[place] == ids(said[0])[first]
    assert items[-1].target[place] == ids(said[-1])[first]
    assert system.codec.encode_dialogues(examples, training=False)[-1].common is None
    batch = system.codec.collate(items[-1:])
    system.model.train()
    trained = [parameter for parameter in system.model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.Adam(trained, lr=1e-2)
    costs = []
    for _ in range(15):
        cost = system.model.losses(batch, 1, 1)["unlikelihood"]
        optimizer.zero_grad()
        cost.backward()
        optimizer.step()
        costs.append(float(cost.detach()))
    assert 0 < costs[-1] < costs[0]


def test_a_control_changes_what_is_said_and_is_asked_for_by_name(system: Any) -> None:
    context = (Turn("speaker", "My old dog died on Monday."),)
    plain = Ask(context, Control("sad", "consoling"), decoding=Decoding(max_steps=8))
    asked = Ask(context, Control("sad", "questioning", asked=True), decoding=Decoding(max_steps=8))
    (one,), (other,) = system.candidates([plain, asked])
    assert one.text != other.text
    again = system.candidates([asked])[0][0]
    assert again.text == other.text
    assert again.logprob == pytest.approx(other.logprob, rel=1e-4)


def test_candidates_differ_and_a_stream_says_the_first_of_them(system: Any) -> None:
    ask = Ask(
        (Turn("speaker", "I won!"),), Control("proud"), count=3, seed=5, decoding=Decoding("nucleus", max_steps=6)
    )
    found = system.candidates([ask])[0]
    assert len({one.text for one in found}) > 1
    assert all(one.logprob < 0 and one.tokens <= 7 for one in found)
    assert "".join(system.stream(ask)).startswith(found[0].text), "it may finish its sentence"


def test_training_leaves_out_parts_of_controls_and_asks_for_some_labels(dialogues: list[Dialogue]) -> None:
    codec = small_system("attune", dialogues).codec
    known = Control("sad", "consoling", False, ("grief",))
    seen = [
        codec.thinned(known, Example(f"d:{i}", (), Turn("listener", "Oh!", "questioning")), seed=0) for i in range(2000)
    ]
    assert np.mean([control.emotion is None for control in seen]) == pytest.approx(0.25, abs=0.04)
    assert np.mean([control.concepts == () for control in seen]) == pytest.approx(0.25, abs=0.04)
    assert np.mean([control.asked for control in seen]) == pytest.approx(0.2, abs=0.04)
    assert {control.label for control in seen if control.asked} == {"questioning"}
    assert {control.label for control in seen if not control.asked} == {"consoling", None}
    again = codec.thinned(known, Example("d:7", (), Turn("listener", "Oh!", "questioning")), seed=0)
    assert again == seen[7]


def test_the_gold_label_of_a_response_never_reaches_a_test_prompt(system: Any, dialogues: list[Dialogue]) -> None:
    example = test_examples(dialogues)[0]
    other = Example(example.id, example.context, Turn("listener", example.response.text, "wishing"), "afraid", "x")
    (one,), (two,) = system.codec.encode([example]), system.codec.encode([other])
    assert (one.context == two.context).all()


def test_kept_states_are_the_computed_ones_in_half_precision(tmp_path: Path) -> None:
    states = torch.randn(2, 4, 3)
    lengths, rows = torch.tensor([4, 2]), torch.tensor([1, 0])
    asked: list[list[int]] = []

    def compute(places: torch.Tensor) -> torch.Tensor:
        asked.append(places.tolist())
        return states[places]

    store = LowerStates(tmp_path, [2, 4], 3)
    first = store.states(rows, lengths, compute)
    assert torch.equal(first[0], states[0].half().float())
    assert torch.equal(first[1, :2], states[1, :2].half().float())
    again = LowerStates(tmp_path, [2, 4], 3).states(rows, lengths, compute)
    assert torch.equal(first, again)
    assert asked == [[0, 1]]


def test_heads_tell_dialogues_that_they_have_not_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    feeling = {"sad": rng.normal(size=6), "proud": rng.normal(size=6)}
    examples = [
        Example(f"d{i}:2", (Turn("speaker", f"{emotion} {i}"),), Turn("listener", "Oh.", "consoling"), emotion)
        for i, emotion in enumerate(["sad", "proud"] * 40)
    ]

    def features(examples: list[Example]) -> np.ndarray:
        return np.array(
            [feeling[e.context[0].text.split()[0]] + rng.normal(size=6) * 0.1 for e in examples], np.float32
        )

    monkeypatch.setattr("attune.train.attune.context_features", features)
    found = crossfit(examples, tmp_path)
    assert np.mean([found[e.id] == (e.emotion, "consoling") for e in examples]) > 0.95
    monkeypatch.setattr("attune.train.attune.context_features", lambda _: pytest.fail("it was kept"))
    assert crossfit(examples, tmp_path) == found
    monkeypatch.setattr("attune.train.attune.context_features", features)
    bare = [replace(e, response=Turn("listener", "Oh.")) for e in examples]
    found = crossfit(bare, tmp_path)
    assert np.mean([found[e.id] == (e.emotion, None) for e in bare]) > 0.95, "no label, but the emotion all the same"
    assert set(crossfit([replace(e, emotion=None) for e in bare], tmp_path).values()) == {(None, None)}


@pytest.fixture(scope="module")
def perceiver(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    sets = [f"model.encoder={part('bert')}", "training.epochs=1", "training.batch_size=16", "training.validate_every=4"]
    run = tmp_path_factory.mktemp("perceiver") / "run"
    train(load_recipe("perceiver", None, sets), corpus, run)
    return run


def recipe(perceiver: Path, *sets: str) -> Any:
    small = [f"model.decoder={part('llama')}", "model.decoder_frozen=1", "model.lora_rank=2", "model.concepts=0"]
    small += [f"text.perceiver={perceiver}", "training.batch_size=8", "training.epochs=2", "training.validate_every=6"]
    return load_recipe("attune", "first", [*small, "training.checkpoint_every=2", "training.lr=0.01", *sets])


@pytest.fixture
def features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sentence vectors without the sentence encoder; what is made of them is kept apart."""
    monkeypatch.setenv("ATTUNE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(
        "attune.train.attune.context_features",
        lambda examples: np.array([[len(e.context), len(e.context[0].text)] for e in examples], np.float32),
    )


@pytest.mark.usefixtures("features")
def test_it_trains_resumes_to_the_same_weights_and_opens(corpus: Path, perceiver: Path, tmp_path: Path) -> None:
    whole = train(recipe(perceiver), corpus, tmp_path / "whole")
    assert whole["validation"][-1]["ppl"] < whole["validation"][0]["ppl"]
    assert not (tmp_path / "whole" / "scratch").exists()
    for run in (tmp_path / "again", tmp_path / "lost"):
        with killed_after(9):
            train(recipe(perceiver), corpus, run)
        if run.name == "lost":
            shutil.rmtree(
                run / "scratch"
            )  # what was kept is computed anew, in other batches: the same but for rounding
        train(recipe(perceiver), corpus, run)
    assert (tmp_path / "again/model.safetensors").read_bytes() == (tmp_path / "whole/model.safetensors").read_bytes()
    trained, anew = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "lost"))
    for name in trained:
        torch.testing.assert_close(anew[name], trained[name], rtol=1e-3, atol=1e-4)
    system = open_system(tmp_path / "whole")
    assert {"perceive", "decide", "reply", "nll", "say"} <= system.capabilities
    context = (Turn("speaker", "I lost my keys."),)
    assert system.perceive([context]).shape == (1, len(EMOTIONS))
    assert system.reply([context])[0].text
    assert json.loads((tmp_path / "whole/perceiver/config.json").read_text())["model_type"] == "attune-perceiver"
    apart = SYSTEMS["attune"].from_pretrained(tmp_path / "whole").eval()  # its adapters are not worked in
    adapters = [module for module in system.model.decoder.modules() if hasattr(module, "merged")]
    assert adapters
    assert all(module.merged for module in adapters)
    ids = torch.arange(5, 25)[None]
    with torch.inference_mode():
        torch.testing.assert_close(system.model.decoder(ids).logits, apart.decoder(ids).logits, rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("features")
@pytest.mark.parametrize("frozen", [0, 1])
def test_it_learns_in_bf16_too_and_keeps_full_weights(
    frozen: int, corpus: Path, perceiver: Path, tmp_path: Path
) -> None:
    layers = f"model.decoder_frozen={frozen}"
    full, rounded = (
        train(recipe(perceiver, layers, f"training.precision={precision}"), corpus, tmp_path / precision)
        for precision in ("full", "bf16")
    )
    assert rounded["best_valid_ppl"] == pytest.approx(full["best_valid_ppl"], rel=0.03)
    assert rounded["best_valid_ppl"] != full["best_valid_ppl"]
    weights = load_file(tmp_path / "bf16" / "model.safetensors")
    assert all(weight.dtype == torch.float32 for weight in weights.values())


@pytest.mark.usefixtures("features")
def test_it_may_go_on_with_adapters_on_more_layers(corpus: Path, perceiver: Path, tmp_path: Path) -> None:
    first = train(recipe(perceiver), corpus, tmp_path / "first")
    start = f"training.start={tmp_path / 'first'}"
    deep = train(recipe(perceiver, start, "model.decoder_frozen=0", "training.epochs=1"), corpus, tmp_path / "deep")
    assert deep["validation"][0]["ppl"] == pytest.approx(first["best_valid_ppl"], rel=1e-3), "they begin as nothing"
    assert deep["best_valid_ppl"] < first["best_valid_ppl"]
    assert json.loads((tmp_path / "deep" / "before" / "summary.json").read_text()) == first
    with pytest.raises(SettingsError, match="does not fit this recipe"):  # less than the run has
        train(recipe(perceiver, start, "model.decoder_frozen=2"), corpus, tmp_path / "less")


@pytest.mark.usefixtures("features")
def test_it_may_go_on_with_more_ranks_while_those_it_has_stay(corpus: Path, perceiver: Path, tmp_path: Path) -> None:
    first = train(recipe(perceiver), corpus, tmp_path / "first")
    before = load_file(tmp_path / "first" / "model.safetensors")
    rank = next(len(value) for name, value in before.items() if "lora_A" in name)
    sets = (f"training.start={tmp_path / 'first'}", f"model.lora_rank={rank + 2}", f"model.lora_fixed={rank}")
    more = train(recipe(perceiver, *sets, "training.epochs=1"), corpus, tmp_path / "more")
    assert more["validation"][0]["ppl"] == pytest.approx(first["best_valid_ppl"], rel=1e-3), "they begin as nothing"
    assert more["best_valid_ppl"] < first["best_valid_ppl"]
    after = load_file(tmp_path / "more" / "model.safetensors")
    for name, value in before.items():
        axis = rank_axis(name)
        assert axis is not None
        assert torch.equal(after[name].narrow(axis, 0, rank), value), name
        assert after[name].narrow(axis, rank, 2).any(), name
    with pytest.raises(SettingsError, match="must be 0: it would change what is to stay"):
        train(recipe(perceiver, *sets, "training.weight_decay=0.1"), corpus, tmp_path / "decayed")
    with pytest.raises(SettingsError, match=r"training\.start must name it"):
        train(recipe(perceiver, *sets[1:]), corpus, tmp_path / "nothing")


@pytest.fixture
def tiny_recipes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The recipes of both systems with their variants, in small."""
    folder = tmp_path / "recipes"
    folder.mkdir()
    steps = {"batch_size": 8, "epochs": 1, "limit": None, "skip": 0, "lr": 0.01, "warmup": 2, "validate_every": 6}
    small: dict[str, Any] = {
        "perceiver": {"model": {"encoder": part("bert")}, "training": steps},
        "attune": {"model": {"decoder": part("llama"), "concepts": 0}, "training": steps},
    }
    for name, sets in small.items():
        raw = merge(yaml.safe_load((RECIPES / f"{name}.yaml").read_text()), sets)
        raw["variants"] = {key: merge(one, {"training": steps}) for key, one in raw["variants"].items()}
        if "first" in raw["variants"]:
            raw["variants"]["first"]["model"]["decoder_frozen"] = 1
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(raw))
    monkeypatch.setattr("attune.train.recipes.RECIPES", folder)


@pytest.mark.usefixtures("features", "tiny_recipes")
def test_dailydialog_may_be_learnt_first(
    with_labels: Path, perceiver: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "data" / "daily_dialog"
    folder.mkdir(parents=True)
    for split in ("train", "validation"):
        said = [f"Hello {i} ! __eou__ How are you ? __eou__ Fine . __eou__ Good . __eou__" for i in range(12)]
        (folder / f"dialogues_{split}.txt").write_text("\n".join(said) + "\n")
    monkeypatch.setenv("ATTUNE_DATA", str(tmp_path / "data"))
    monkeypatch.setattr("attune.train.attune.trained_perceiver", lambda *_: pytest.fail("one is given"))
    sets = [f"text.perceiver={perceiver}"]
    train(load_recipe("attune", "after-daily", sets), with_labels, tmp_path / "runs" / "mine")
    first = json.loads((tmp_path / "runs" / "attune-daily" / "summary.json").read_text())
    assert first["examples"] == 12
    assert first == json.loads((tmp_path / "runs" / "mine" / "before" / "summary.json").read_text())


@pytest.fixture(scope="module")
def with_labels(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The corpus with a label for each turn."""
    folder = tmp_path_factory.mktemp("labelled")
    for file in corpus.glob("*.jsonl"):
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        for row in rows:
            row["turns"] = [{**turn, "label": "consoling"} for turn in row["turns"]]
        (folder / file.name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.mark.usefixtures("features", "tiny_recipes")
def test_one_command_trains_every_variant_before_it_and_one_perceiver(with_labels: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    train(load_recipe("attune"), with_labels, runs / "mine")
    assert {run.name for run in runs.iterdir()} == {"mine", "attune-whole", "attune-first", "attune-first-perceiver"}
    first = (runs / "attune-first-perceiver" / "model.safetensors").read_bytes()
    for run in ("mine", "attune-whole", "attune-first"):
        assert (runs / run / "perceiver" / "model.safetensors").read_bytes() == first
    assert not (runs / "mine" / "perceiver" / "crossfit.safetensors").exists()
    assert len(list((tmp_path / "cache" / "crossfit").glob("*.safetensors"))) == 1, "worked out once for both"
    train(load_recipe("attune", None, [f"training.start={runs / 'mine'}"]), with_labels, runs / "again")
    places = ("before", "before/before")
    led = [yaml.safe_load((runs / "again" / place / "config.yaml").read_text()) for place in places]
    assert [one["variant"] for one in led] == ["default", "whole"]


@pytest.mark.usefixtures("features", "tiny_recipes")
def test_a_corpus_without_labels_is_refused_unless_it_can_be_done_without(
    corpus: Path, perceiver: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(DataError, match=r"no turn has a label.*train\.jsonl.*no-label"):
        train(load_recipe("attune", "first"), corpus, tmp_path / "run")
    assert not list(tmp_path.glob("run*"))
    asked: list[str] = []
    of = ContextControls.__call__

    def by_perceiver(self: ContextControls, examples: list[Example]) -> list[Control]:
        asked.extend(example.id for example in examples)
        return of(self, examples)

    monkeypatch.setattr(ContextControls, "__call__", by_perceiver)
    train(load_recipe("attune", "no-label"), corpus, tmp_path / "without")
    assert "no turn has a label" not in capsys.readouterr().err
    train(load_recipe("attune", "first", [f"text.perceiver={perceiver}"]), corpus, tmp_path / "given")
    assert f"{corpus}: no turn has a label" in capsys.readouterr().err
    assert {name[:5] for name in asked} == {"valid"}, "no control of a training dialogue is the perceiver's"


def test_a_perceiver_that_is_not_there_is_named(corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="no run of a perceiver at"):
        train(recipe(tmp_path / "none"), corpus, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("sets", "why"),
    [
        ("model.decoder_frozen=3", "must leave a layer"),
        ("model.dropped=2", "dropped must be from 0 to 1"),
        ("model.lora_rank=0", "lora_rank must be at least 1"),
        ("model.lora_fixed=99", "lora_fixed must be from 0 to below lora_rank"),
        ("model.longest=5000", "longest must be at most 514"),
    ],
)
@pytest.mark.usefixtures("features")
def test_settings_that_cannot_be_are_refused(
    corpus: Path, perceiver: Path, tmp_path: Path, sets: str, why: str
) -> None:
    with pytest.raises(SettingsError, match=why):
        train(recipe(perceiver, sets), corpus, tmp_path / "run")


@pytest.mark.usefixtures("features")
def test_a_decoder_without_the_chat_form_is_refused(corpus: Path, perceiver: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"no <\|im_start\|>"):
        train(recipe(perceiver, f"model.decoder={part('gpt2')}"), corpus, tmp_path / "run")
