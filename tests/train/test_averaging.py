from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from attune.train.averaging import Averaged
from attune.train.recipes import load_recipe
from attune.train.trainer import train
from tests.interrupting import killed_after
from tests.train.test_trainer import settings


def test_the_mean_is_that_of_all_steps_by_their_weights() -> None:
    weight, values = nn.Parameter(torch.zeros(2)), [torch.randn(2) for _ in range(40)]
    averaged, expected = Averaged([weight], 0.8), torch.zeros(2)
    for step, value in enumerate(values, 1):
        weight.data.copy_(value)
        averaged.update()
        decay = min(0.8, step / (10 + step))
        expected = decay * expected + (1 - decay) * value
    with averaged.shown():
        torch.testing.assert_close(weight.detach(), expected)
    assert torch.equal(weight.detach(), values[-1])


def test_what_never_changes_stays_to_the_last_bit() -> None:
    weight = nn.Parameter(torch.randn(1000))
    averaged = Averaged([weight], 0.98)
    for _ in range(30):
        averaged.update()
    assert torch.equal(weight, averaged.means[0])


def test_the_weights_come_back_after_an_error() -> None:
    weight = nn.Parameter(torch.ones(1))
    averaged = Averaged([weight], 0.5)
    weight.data.fill_(2.0)
    with pytest.raises(KeyboardInterrupt), averaged.shown():
        assert weight.item() == 1.0
        raise KeyboardInterrupt
    assert weight.item() == 2.0


def test_a_run_keeps_the_mean_and_resumes_to_it(corpus: Path, tmp_path: Path) -> None:
    recipe = load_recipe("transformer", None, settings("training.average=0.9", "training.epochs=2"))
    summary = train(recipe, corpus, tmp_path / "whole")
    with killed_after(9):
        train(recipe, corpus, tmp_path / "again")
    assert (tmp_path / "again" / "checkpoint" / "averaged.safetensors").is_file()
    train(recipe, corpus, tmp_path / "again")
    whole, again = (load_file(tmp_path / run / "model.safetensors") for run in ("whole", "again"))
    plainly = train(load_recipe("transformer", None, settings("training.epochs=2")), corpus, tmp_path / "plain")
    assert [row["last_ppl"] for row in summary["validation"]] == [row["ppl"] for row in plainly["validation"]]
    plain = load_file(tmp_path / "plain" / "model.safetensors")
    for name, value in whole.items():
        assert torch.equal(value, again[name]), name
    assert any(not torch.equal(value, plain[name]) for name, value in whole.items())
