"""Every method computes where its batch is, on a device that is not the CPU, and waits for it only where it says so."""

import copy

import pytest
import torch
from builders.devices import DEVICE, on_other_device
from builders.taggers import batch_of, every_method, make_tagger, some_sentences

# Where the loss reads a number from the device. A GPU then waits until all work before it is done.
MAY_WAIT = {
    "transformer._read_rows": "transformers asks whether anything is masked",
    "encoder_decoder.read": "the same",
    "encoder_decoder.write": "the same",
    "bilstm.run_packed": "PyTorch wants the lengths of packed sentences on the CPU",
    "bilstm.<lambda>": "the same",
    "coach.forward": "the same",
    "crf._log_partition": "chooses the formula by the spread of the transitions",
    "laner._attend_backwards": "the number of labels that each step of the LSTM reads",
    "multi_cell._weight": "the types whose cells are computed",
    "bartner.find_windows": "the longest sentence",
    "bartner._targets": "the longest target",
}


@every_method
def test_loss_gradients_and_tags_are_those_of_the_cpu_and_nothing_is_made_on_another_device(
    tiny_encoder_folder, method
):
    tagger = make_tagger(tiny_encoder_folder, method)
    batch = batch_of(tagger, some_sentences(5))
    other = copy.deepcopy(tagger)
    expected = tagger.loss(batch)
    sum(expected.values()).backward()
    tags = tagger.decode(batch).tags
    with on_other_device(other) as waits:
        moved = batch.to(DEVICE)
        losses = other.loss(moved)
        waited = set(waits)
        sum(losses.values()).backward()
        found = {name: float(value.detach()) for name, value in losses.items()}
        assert {each.device for each in losses.values()} == {DEVICE}
        assert other.decode(moved).tags == tags
    assert found == pytest.approx({name: float(value.detach()) for name, value in expected.items()}, rel=1e-5)
    for (name, one), two in zip(tagger.named_parameters(), other.parameters(), strict=True):
        assert (one.grad is None) == (two.grad is None), name
        if one.grad is not None:
            torch.testing.assert_close(two.grad.held, one.grad, rtol=1e-3, atol=1e-4)
    assert waited <= MAY_WAIT.keys()


def test_what_mixes_devices_is_refused(tiny_encoder_folder):
    tagger = make_tagger(tiny_encoder_folder, "linear")
    with on_other_device(tagger), pytest.raises(AssertionError, match=r"mixes meta and the CPU"):
        tagger.loss(batch_of(tagger, some_sentences(2)))
