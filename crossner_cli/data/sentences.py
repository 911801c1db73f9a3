"""Sentences, and the prepared sentences of a run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from crossner_cli.data.tags import TagSet
from crossner_cli.errors import CrossNERError
from crossner_cli.run.directory import PREPARED, RunDirectory
from crossner_cli.run.records import read_result
from crossner_cli.run.results import PrepareDataResult
from crossner_cli.run.storage import check_digest

SPLITS = ("train", "dev", "test")
PROBABILITIES = "probabilities"
PLACES = "places.json"  # the place of each sentence in the user's files, by split
SILVER = "silver"  # the role of sentences that a teacher labelled
_PLACE = re.compile(r"(.+)(?::|, \w+ )(\d+)", re.DOTALL)
MADE_AGAIN = "Copy the run again, or prepare the data again with --force."


@dataclass(frozen=True)
class Sentence:
    """At least one word, with a tag for each, or ``tags`` None without labels.

    The name of its domain decides which types may be decoded. Soft labels are a teacher's probabilities of the tags of
    each word, without those near zero. The place is that in the user's own file, as ``train.conll:12`` or ``tasks.json,
    record 3``, or empty.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...] | None = None
    domain: str = ""
    soft: tuple[Mapping[str, float], ...] | None = field(default=None, compare=False)
    place: str = field(default="", compare=False)


def split_place(place: str) -> tuple[str, int | None]:
    """Split the place of a sentence into the file and its line or record; None where a file is one text, as in brat."""
    found = _PLACE.fullmatch(place)
    return (found[1], int(found[2])) if found else (place, None)


def write_sentences(path: Path, sentences: Iterable[Sentence], *, append: bool = False) -> int:
    """Write sentences as JSONL, one ``{"words": [...], "tags": [...]}`` per line; return their number.

    With ``append`` they follow those in the file. Soft labels are a further key, ``"probabilities": [{"O": 0.9,
    "B-person": 0.1}, ...]``.
    """
    count = 0
    with path.open("a" if append else "w", encoding="utf-8", newline="\n") as stream:
        for sentence in sentences:
            record: dict[str, Any] = {"words": list(sentence.words)}
            if sentence.tags is not None:
                record["tags"] = list(sentence.tags)
            if sentence.soft is not None:
                record[PROBABILITIES] = list(sentence.soft)
            stream.write(json.dumps(record, ensure_ascii=False) + "\n")
            count += 1
    return count


def read_sentences(path: Path, domain: str = "") -> Iterator[Sentence]:
    """Read what ``write_sentences`` wrote."""
    with path.open(encoding="utf-8") as stream:
        for line in stream:
            record = json.loads(line)
            tags = tuple(record["tags"]) if "tags" in record else None
            soft = tuple(record[PROBABILITIES]) if PROBABILITIES in record else None
            yield Sentence(tuple(record["words"]), tags, domain, soft)


@dataclass(frozen=True)
class PreparedDomain:
    """One domain of a run after ``prepare-data``, source or target.

    Its folder of JSONL files has the name of its role. ``digests`` are the SHA-256 of all prepared files, from the
    manifest; files that it lacks are not checked.
    """

    name: str
    role: str
    folder: Path
    types: tuple[str, ...]
    digests: Mapping[str, str] = field(default_factory=dict)

    def has(self, split: str) -> bool:
        """Return whether the domain has this split."""
        return (self.folder / f"{split}.jsonl").is_file()

    def check_has(self, split: str) -> None:
        """Refuse a domain without this split."""
        if self.has(split):
            return
        way = f"Add a {split} file to the data set and prepare the data again"
        if split == "dev":
            other = "source" if self.role == "target" else "target"
            way = "Give prepare-data --dev-from-train 0.1 to take dev from train" if self.has("train") else way
            has_other = (self.folder.parent / other / "dev.jsonl").is_file()
            way += f", or choose on the {other}'s dev: --select-on {other}" if has_other else ""
        elif split == "train" and self.role == "target":
            way += (
                "; crossner pretrain-source trains without the target, and joint-train of methods with tasks"
                " without its labels: --set tasks=source-ner,target-lm --select-on source"
            )
        raise CrossNERError(f"The {self.role} {self.name!r} has no {split} sentences.", hint=f"{way}.")

    def sentences(self, split: str) -> list[Sentence]:
        """Read a split.

        Raises:
            CrossNERError: The domain lacks it, or its file is not the one in the manifest.
        """
        self.check_has(split)
        path = _checked(self.folder / f"{split}.jsonl", self.folder.parent, self.digests)
        sentences = list(read_sentences(path, self.name))
        places = self.folder / PLACES
        if not places.is_file():
            return sentences
        found = json.loads(_checked(places, self.folder.parent, self.digests).read_text(encoding="utf-8"))[split]
        return [replace(sentence, place=place) for sentence, place in zip(sentences, found, strict=True)]

    def words(self) -> list[str]:
        """Read the distinct words of all splits, sorted: static vectors are looked up for them."""
        path = _checked(self.folder / "words.json", self.folder.parent, self.digests)
        words: list[str] = json.loads(path.read_text(encoding="utf-8"))
        return words

    def domain_in(self, tag_set: TagSet) -> str:
        """Return the domain that a tagger, perhaps another run's, tags the sentences of this one as."""
        return tag_set.choose_domain(self.name, self.types)

    def assign_domain(self, tag_set: TagSet, sentences: Sequence[Sentence]) -> list[Sentence]:
        """Give sentences of this domain the domain that a tagger tags them as."""
        domain = self.domain_in(tag_set)
        return [sentence if sentence.domain == domain else replace(sentence, domain=domain) for sentence in sentences]


@dataclass(frozen=True)
class PreparedData:
    """The data that ``prepare-data`` left in a run.

    Layout of its folder: ``source/`` and ``target/`` with ``train.jsonl`` …, ``words.json`` and ``places.json``,
    ``corpus/LEVEL.txt`` with ``LEVEL.mentions``, ``source-corpus/domain.txt``, ``weak-labels/train.jsonl``,
    ``statistics.json`` and a manifest with the name, role and types of each domain. A file that is not the one in the
    manifest is refused.
    """

    folder: Path
    domains: dict[str, PreparedDomain]
    scheme: str
    digests: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def load(cls, run: RunDirectory, *, wanted_by: str) -> PreparedData:
        """Find the prepared data of a run.

        Raises:
            CrossNERError: ``prepare-data`` has not been run, or its manifest is broken.
        """
        manifest = run.manifest(PREPARED, wanted_by=wanted_by)
        folder, digests = run.folder(PREPARED), manifest.get("outputs", {})
        domains = {
            role: PreparedDomain(record.name, role, folder / role, tuple(record.types), digests)
            for role, record in read_result(manifest, PrepareDataResult).domains.items()
        }
        return cls(folder, domains, manifest["options"]["scheme"], digests)

    def inputs(self, *files: str) -> dict[str, str]:
        """Return the digests of the prepared files that a stage reads, without files that do not exist.

        ``{role}/types.json`` stands for the name, types and tag scheme of a domain.
        """
        return {f"{PREPARED}/{file}": self.digests[file] for file in files if file in self.digests}

    def domain(self, role: str, *, wanted_by: str) -> PreparedDomain:
        """Return the source or the target; refuse a run without it."""
        if role not in self.domains:
            raise CrossNERError(
                f"{wanted_by} needs a {role} domain, and this run was prepared without one.",
                hint=f"crossner prepare-data --{role} DATASET … --force",
            )
        return self.domains[role]

    def tag_set(self, *roles: str) -> TagSet:
        """Make the tag set of these domains, in this order."""
        domains = {self.domains[role].name: self.domains[role].types for role in roles}
        return TagSet(domains, "bioes" if self.scheme == "bioes" else "bio")

    def raw_text(self, role: str) -> Path | None:
        """Find all raw text of the source or the target; None if none was prepared."""
        path = self.folder / ("corpus" if role == "target" else "source-corpus") / "domain.txt"
        return _checked(path, self.folder, self.digests) if path.is_file() else None

    def corpus(self, level: str) -> Path:
        """Find the raw text of a corpus level; refuse a run without it."""
        path = self.folder / "corpus" / f"{level}.txt"
        if not path.is_file():
            made = ", ".join(sorted(path.stem for path in path.parent.glob("*.txt"))) or "none"
            names = "" if level == "domain" else " --entities LIST"
            raise CrossNERError(
                f"This run has no corpus of level {level!r} (prepared levels: {made}).",
                hint=f"crossner prepare-data … --corpus FILE{names} --force",
            )
        return _checked(path, self.folder, self.digests)

    def mentions(self, level: str) -> Path:
        """Find the places of the listed names in a corpus level; refuse one that was prepared without names."""
        path = self.corpus(level).with_suffix(".mentions")
        if not path.is_file():
            raise CrossNERError(
                f"This run's corpus of level {level!r} was prepared without names.",
                hint="crossner prepare-data … --corpus FILE --entities LIST --force",
            )
        return _checked(path, self.folder, self.digests)


def _checked(path: Path, prepared: Path, digests: Mapping[str, str]) -> Path:
    """Return the path of a prepared file after a check of its digest."""
    check_digest(path, digests.get(path.relative_to(prepared).as_posix()), hint=MADE_AGAIN)
    return path
