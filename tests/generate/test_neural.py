"""Systems that are networks: what they say of many examples, asked for in either way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attune.dialogue.types import Dialogue
from attune.generate.neural import NeuralSystem
from tests.systems import VARIANTS, small_system, test_examples, variant_id


@pytest.mark.parametrize("variant", [one for one in VARIANTS if one[0] != "attune"], ids=variant_id)
@pytest.mark.parametrize("size", [128, 3])
def test_what_is_said_all_at_once_is_what_is_said_one_after_the_other(
    variant: tuple[str, dict[str, Any]], size: int, dialogues: list[Dialogue], monkeypatch: pytest.MonkeyPatch
) -> None:
    name, settings = variant
    system: NeuralSystem = small_system(name, dialogues, **settings)
    monkeypatch.setattr(system, "batch", size)
    examples = test_examples(dialogues)
    contexts = [example.context for example in examples]
    felt, nll, said = zip(*system.answers(examples, seed=5), strict=True)
    assert list(said) == system.reply(contexts, seed=5)
    expected = system.nll(examples)
    np.testing.assert_allclose([one.nll for one in nll], [one.nll for one in expected], rtol=1e-4)
    assert [one[1:] for one in nll] == [one[1:] for one in expected]
    if "perceive" in system.capabilities:
        np.testing.assert_allclose(felt, system.perceive(contexts), rtol=1e-4, atol=1e-6)
    else:
        assert set(felt) == {None}


def test_each_context_is_read_once(dialogues: list[Dialogue], monkeypatch: pytest.MonkeyPatch) -> None:
    system: NeuralSystem = small_system("kemp-lm", dialogues, decoder="llama")
    read: list[int] = []
    encode = system.model.encode
    monkeypatch.setattr(system.model, "encode", lambda batch: read.append(len(batch["context"])) or encode(batch))
    examples = test_examples(dialogues)
    system.answers(examples)
    assert sum(read) == len(examples)
