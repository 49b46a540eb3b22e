from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attune.models.layers.dropout import Dropout


@pytest.mark.parametrize("share", [0.05, 0.3, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_its_share_of_a_state_is_dropped_and_the_rest_is_raised_so_that_the_mean_stays(
    share: float, dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    said = Dropout(share)(torch.ones(400, 500, dtype=dtype))
    gone = said == 0
    assert abs(gone.float().mean() - share) < 0.005
    assert gone.float().mean(0).std() < 0.05
    assert gone.float().mean(1).std() < 0.05
    torch.testing.assert_close(said[~gone].unique(), torch.tensor([1 / (1 - share)], dtype=dtype))


def test_neighbours_are_dropped_independently() -> None:
    """Four elements come from one number."""
    torch.manual_seed(0)
    gone = (Dropout(0.5)(torch.ones(50_000, 4)) == 0).float()
    patterns = (gone @ torch.tensor([1.0, 2, 4, 8])).long().bincount(minlength=16) / 50_000
    assert (patterns - 1 / 16).abs().max() < 0.005


def test_the_gradient_passes_where_the_state_did_and_can_itself_be_differentiated() -> None:
    x = torch.randn(3, 7, requires_grad=True)
    said = Dropout(0.4)(x)
    weight = torch.randn(3, 7, requires_grad=True)
    (gradient,) = torch.autograd.grad((said * weight).sum(), x, create_graph=True)
    torch.testing.assert_close(gradient, weight * (said / x))
    (again,) = torch.autograd.grad(gradient.sum(), weight)
    torch.testing.assert_close(again, said / x)


@settings(max_examples=30, deadline=None)
@given(shape=st.lists(st.integers(0, 5), max_size=3), seed=st.integers(0, 99))
def test_a_seed_fixes_what_is_dropped_whatever_the_shape(shape: list[int], seed: int) -> None:
    said = []
    for _ in range(2):
        torch.manual_seed(seed)
        said.append(Dropout(0.5)(torch.ones(shape)))
    assert torch.equal(*said)
    assert said[0].shape == torch.Size(shape)


def test_nothing_is_dropped_in_evaluation_or_at_a_share_of_zero() -> None:
    x = torch.randn(5)
    assert Dropout(0.9).eval()(x) is x
    assert Dropout(0.0)(x) is x


def test_everything_may_be_dropped_as_by_torch() -> None:
    assert torch.equal(Dropout(1.0)(torch.ones(9)), torch.zeros(9))
