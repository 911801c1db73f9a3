"""``transformers.Trainer`` with its defaults: what a user would run instead."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from typing import Any

import torch
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments


class LoopTimer(TrainerCallback):  # type: ignore[misc]
    """Seconds of the training loop alone: from its first update to its last, without what is set up before."""

    began = seconds = 0.0

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        """Start."""
        self.began = time.perf_counter()

    def on_train_end(self, *_: Any, **__: Any) -> None:
        """Stop, when a GPU has done all that it was given."""
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.seconds = time.perf_counter() - self.began


def train(
    model: Any,
    rows: Sequence[Any],
    collator: Any,
    *,
    batch_size: int,
    seed: int,
    bf16: bool,
    on_cpu: bool,
    cudnn: bool = True,
    **arguments: Any,
) -> tuple[Trainer, float]:
    """Train; nothing is saved, reported or scored. Returns the trainer and the seconds of its loop.

    ``cudnn`` leaves the attention of a GPU to cuDNN where PyTorch would; crossner never does.
    """
    torch.backends.cuda.enable_cudnn_sdp(cudnn)
    timer = LoopTimer()
    with tempfile.TemporaryDirectory() as folder:
        settings = TrainingArguments(
            output_dir=folder,
            use_cpu=on_cpu,
            bf16=bf16,
            seed=seed,
            per_device_train_batch_size=batch_size,
            per_device_eval_batch_size=batch_size,
            report_to="none",
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
            **arguments,
        )
        trainer = Trainer(model, settings, data_collator=collator, train_dataset=rows, callbacks=[timer])
        trainer.remove_callback(PrinterCallback)
        # The engine of the other side lives in this Python process too; its precision must not reach this one.
        assert trainer.accelerator.mixed_precision == ("bf16" if bf16 else "no")
        trainer.train()
        settings.train_sampling_strategy = "random"  # by length, predict would change the order, too
    return trainer, timer.seconds
