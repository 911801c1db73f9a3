"""Dropout: its share, its expected value, its gradients and its seed."""

import pytest
import torch

from crossner_cli.errors import CrossNERError
from crossner_cli.layers.randomness import Dropout


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.9])
def test_dropout_keeps_the_expected_value_and_drops_its_share_and_follows_the_seed(rate):
    layer, values = Dropout(rate), torch.full((1000, 401), 2.0)
    torch.manual_seed(5)
    dropped, other = layer(values), layer(values)
    torch.manual_seed(5)
    assert torch.equal(layer(values), dropped) and not torch.equal(dropped, other)
    rounded = round(rate * 256) / 256
    assert float(dropped.mean()) == pytest.approx(2.0, rel=0.02)
    assert float((dropped == 0).float().mean()) == pytest.approx(rounded, abs=0.003)
    kept = dropped[dropped != 0]
    assert torch.allclose(kept, torch.tensor(2.0 / (1 - rounded)))
    # Each row and each column has its share: nothing repeats with the eight bytes of a random number.
    assert (dropped == 0).float().mean(dim=0).sub(rounded).abs().max() < 0.1
    flat = (dropped == 0).flatten()[: 401000 // 8 * 8].view(-1, 8).float()
    assert flat.mean(dim=0).sub(rounded).abs().max() < 0.01
    assert torch.corrcoef(flat.T).fill_diagonal_(0).abs().max() < 0.03


@pytest.mark.parametrize("rate", [0.997, 0.999, 0.99999])
def test_a_rate_just_below_one_still_keeps_something(rate):
    torch.manual_seed(1)
    dropped = Dropout(rate)(torch.ones(100_000))
    assert dropped.isfinite().all()
    assert 0 < float((dropped != 0).float().mean()) < 0.01
    assert float(dropped.mean()) == pytest.approx(1, rel=0.2)


@pytest.mark.parametrize("rate", [-0.1, 1.0, float("nan")])
def test_what_is_no_rate_is_refused(rate):
    with pytest.raises(CrossNERError, match=r"is not in \[0, 1\)"):
        Dropout(rate)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (7,), (9,), (3, 5, 7), (2, 0, 4), (64, 3)])
@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16])
def test_dropout_takes_any_shape_and_number_format_and_gradients_flow_through_what_is_kept(shape, kind):
    torch.manual_seed(2)
    values = torch.ones(shape, dtype=kind, requires_grad=True)
    dropped = Dropout(0.5)(values)
    assert dropped.shape == values.shape and dropped.dtype == kind
    assert set(dropped.flatten().tolist()) <= {0.0, 2.0}
    dropped.sum().backward()
    assert values.grad is not None and torch.equal(values.grad, dropped)
