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


@pytest.mark.parametrize("rate", [-0.1, 1.0, float("nan")])
def test_what_is_no_rate_is_refused(rate):
    with pytest.raises(CrossNERError, match=r"is not in \[0, 1\)"):
        Dropout(rate)
