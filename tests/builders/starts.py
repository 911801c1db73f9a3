"""Finished training stages, and taggers that begin from them."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from builders.encoders import folder_for
from builders.runs import seeds_result
from builders.taggers import small_sizes
from crossner_cli.data.tags import TagSet
from crossner_cli.encoders.start import Start, TaggerDesign
from crossner_cli.engine.devices import Engine
from crossner_cli.methods.contract import Tagger, find_method, read_settings
from crossner_cli.options import PretrainSource
from crossner_cli.recurrent.word_reader import KnownWords
from crossner_cli.run.directory import RunDirectory
from crossner_cli.run.results import CarryOver
from crossner_cli.run.stage import open_stage
from crossner_cli.taggers.carry_over import reads_transformer, start_tagger
from crossner_cli.taggers.folder import save_tagger
from crossner_cli.taggers.sources import find_start


@dataclass(frozen=True)
class SmallDesign(TaggerDesign):
    """The design of a small tagger, and the encoder that base stands for."""

    encoder: str = ""

    @property
    def base(self) -> Start:
        """The encoder, which no stage has read."""
        return Start("base", None, "", encoder=self.encoder)


def design_tagger(folder: Path, method: str = "linear", settings: Iterable[str] | None = None) -> SmallDesign:
    """The design of a small tagger above a tiny encoder."""
    kind = find_method(method)
    given = small_sizes(kind) if settings is None else settings
    return SmallDesign(method, read_settings(kind, given), encoder=str(folder_for(kind, folder)))


def find(run: RunDirectory, name: str, design: SmallDesign) -> Start:
    return find_start(run, name, design.encoder if reads_transformer(design) else None, wanted_by="finetune")


def begin(
    run: RunDirectory,
    engine: Engine,
    design: SmallDesign,
    tag_set: TagSet,
    *,
    start: str | Path = "base",
    seed: int = 1,
    known: KnownWords | None = None,
) -> tuple[Any, CarryOver]:
    """A tagger that starts from what a name stands for."""
    return start_tagger(find(run, str(start), design), design, tag_set, seed, engine, known)


def save_stage(
    run: RunDirectory,
    name: str,
    taggers: dict[int, Tagger],
    scores: list[float | None],
    lineage: Any = (),
    inputs: Mapping[str, str] | None = None,
) -> Path:
    """A finished training stage with one tagger a seed."""
    with open_stage(run, PretrainSource(name=name).stage_request(dict(inputs or {}))) as stage:
        result = seeds_result(dict(zip(taggers, scores, strict=True)))
        for seed, tagger in taggers.items():
            save_tagger(tagger, stage.draft / result.seeds[str(seed)].folder)
        stage.finish(asdict(result), lineage=list(lineage))
    return run.folder(name)
