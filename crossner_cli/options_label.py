"""The options of ``crossner label``. This module imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal

from crossner_cli.errors import CrossNERError
from crossner_cli.option_fields import ComputeTags, option

OPENAI = "openai:"
selection = partial(option, panel="Selection")
model_option = partial(option, panel="Language models")
MODEL_OPTIONS = ("base_url", "shots", "descriptions", "second_pass", "parallel", "timeout", "max_requests")


@dataclass(frozen=True, kw_only=True)
class Label(ComputeTags):
    """Let a teacher label raw text, and write a data set that prepare-data reads."""

    command = "label"
    makes_stage: ClassVar[bool] = False
    input: list[Path] = option(
        [], "Raw text: files or folders of text, JSONL or Parquet; default: the prepared corpus.", argument=True
    )
    teacher: list[str] = option(
        [],
        "Who labels: a stage of the run or the path of one, with all its seeds, or openai:MODEL. Repeatable for"
        " stages.",
    )
    output: Path | None = option(None, "Folder of the data set to write.", counts=False)
    min_probability: float | None = option(
        None,
        "Write only sentences with entities, all of this probability or more; of taggers alone.",
        minimum=0.0,
        maximum=1.0,
    )
    text_column: str = option("text", "Column or key that holds the text in JSONL and Parquet.")
    sentences: int | None = selection(None, "Number of sentences to label; default: all.", minimum=1)
    select: Literal["random", "dense", "uncertain"] = selection(
        "random",
        "Sentences to choose. dense: with most listed names a word; uncertain: those that the tagger of --first is"
        " least certain of.",
        needs="sentences",
    )
    entities: list[Path] = selection(
        [],
        "Lists of names for dense, as prepare-data takes them; default: those found in the prepared corpus."
        " Repeatable.",
        needs="select=dense",
    )
    first: str | None = selection(None, "Tagger for uncertain: a stage or a path.", needs="select=uncertain")
    base_url: str | None = model_option(
        None, "Address of an interface like OpenAI's; default: OPENAI_BASE_URL, else OpenAI. The key is OPENAI_API_KEY."
    )
    shots: int = model_option(32, "Labelled sentences of the target to show.", minimum=1)
    descriptions: Path | None = model_option(None, "File of what types mean, with lines type<TAB>description.")
    second_pass: bool = model_option(False, "Ask again for the half of the answers that the model is least certain of.")
    parallel: int = model_option(8, "Requests at once.", minimum=1, maximum=256, counts=False)
    timeout: float = model_option(60.0, "Seconds to wait for a whole answer.", minimum=0.01, counts=False)
    max_requests: int | None = model_option(
        None, "Stop after this many requests; repeated ones are not counted.", minimum=1, counts=False
    )

    @property
    def place(self) -> Path:
        """The folder to write.

        Raises:
            CrossNERError: None was given.
        """
        if self.output is None:
            raise CrossNERError("label needs a folder to write to.", hint="Add --output DIR.")
        return self.output

    @property
    def language_model(self) -> str | None:
        """The name of the language model that labels; None where taggers do."""
        return next((each.removeprefix(OPENAI) for each in self.teacher if each.startswith(OPENAI)), None)

    @property
    def is_resumable(self) -> bool:
        """Return whether the same command continues after an interruption: answers of a language model are kept."""
        return self.language_model is not None

    def check_needs(self) -> None:
        """Refuse options without effect or without what they need.

        Raises:
            CrossNERError: As above.
        """
        super().check_needs()
        if not self.teacher:
            raise CrossNERError("label needs a teacher.", hint="Add --teacher STAGE or --teacher openai:MODEL.")
        model = self.language_model
        if model is not None and len(self.teacher) > 1:
            raise CrossNERError(
                "A language model labels alone, and several teachers are given.", hint="Give one --teacher."
            )
        if model is not None and not model.strip():
            raise CrossNERError("--teacher openai: names no model.", hint="Write --teacher openai:MODEL.")
        if self.given("text_column") and not self.input:
            raise CrossNERError("--text-column has no effect without INPUT.", hint="Name files, or leave it out.")
        if model is not None and self.min_probability is not None:
            raise CrossNERError(
                "--min-probability has no effect with a language model: its labels have no probabilities.",
                hint="Leave it out.",
            )
        given = [part for name in MODEL_OPTIONS for part in self.given(name)[:1]]
        if model is None and given:
            raise CrossNERError(
                f"{given[0]} has no effect without a language model.",
                hint=f"Add --teacher openai:MODEL, or leave {given[0]} out.",
            )
        if self.select == "uncertain" and self.first is None:
            raise CrossNERError("--select uncertain needs a tagger.", hint="Add --first STAGE.")
