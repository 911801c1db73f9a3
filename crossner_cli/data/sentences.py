"""Sentences: what the package passes around once files have been read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from crossner_cli.data.tags import TagSet
from crossner_cli.errors import CrossNERError
from crossner_cli.run.directory import MANIFEST, Manifest, RunDirectory
from crossner_cli.run.storage import check_digest

SPLITS = ("train", "dev", "test")
MADE_AGAIN = "Copy the run again, or prepare the data again with --force."


@dataclass(frozen=True)
class Sentence:
    """Words with their tags; tags are absent where nobody labelled the words. Frozen.

    Args:
        words: At least one word.
        tags: One tag a word, or None.
        domain: Name of the domain the sentence comes from; decides which types may be decoded.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...] | None = None
    domain: str = ""


def write_sentences(path: Path, sentences: Iterable[Sentence]) -> int:
    """Write sentences as JSONL, one ``{"words": [...], "tags": [...]}`` a line; return how many."""
    count = 0
    with path.open("w", encoding="utf-8", newline="\n") as stream:
        for sentence in sentences:
            record = {"words": list(sentence.words)}
            if sentence.tags is not None:
                record["tags"] = list(sentence.tags)
            stream.write(json.dumps(record, ensure_ascii=False) + "\n")
            count += 1
    return count


def read_sentences(path: Path, domain: str = "") -> Iterator[Sentence]:
    """Read what ``write_sentences`` wrote."""
    with path.open(encoding="utf-8") as stream:
        for line in stream:
            record = json.loads(line)
            tags = tuple(record["tags"]) if "tags" in record else None
            yield Sentence(tuple(record["words"]), tags, domain)


@dataclass(frozen=True)
class PreparedDomain:
    """One domain of a run after ``prepare-data``.

    Args:
        name: Name of the data set, as ``politics``.
        role: ``source`` or ``target``.
        folder: Where its JSONL files are.
        types: Its entity types.
        digests: SHA-256 of its files by their names, as the manifest has them; empty where nothing is to be checked.
    """

    name: str
    role: str
    folder: Path
    types: tuple[str, ...]
    digests: Mapping[str, str] = field(default_factory=dict)

    def has(self, split: str) -> bool:
        """Whether the domain has this split."""
        return (self.folder / f"{split}.jsonl").is_file()

    def check_has(self, split: str) -> None:
        """Refuse a domain without this split.

        Raises:
            CrossNERError: As above.
        """
        if not self.has(split):
            raise CrossNERError(f"The {self.role} {self.name!r} has no {split} sentences.", hint=self._way_out(split))

    def sentences(self, split: str) -> list[Sentence]:
        """Read a split.

        Raises:
            CrossNERError: The domain does not have it, or its file is not the one that the manifest tells of.
        """
        self.check_has(split)
        path = self.folder / f"{split}.jsonl"
        check_digest(path, self.digests.get(path.name), hint=MADE_AGAIN)
        return list(read_sentences(path, self.name))

    def known_to(self, tag_set: TagSet) -> str:
        """The domain as which a tagger, which may be another run's, tags the sentences of this one."""
        return tag_set.known_as(self.name, self.types)

    def as_known_to(self, tag_set: TagSet, sentences: Sequence[Sentence]) -> list[Sentence]:
        """Sentences of this domain as those of the one that it is to a tagger."""
        domain = self.known_to(tag_set)
        return [sentence if sentence.domain == domain else replace(sentence, domain=domain) for sentence in sentences]

    def _way_out(self, split: str) -> str:
        """What helps where a split is missing: only what is there can stand in for it."""
        add = f"Add a {split} file to the data set and prepare the data again"
        if split == "dev":
            other = "source" if self.role == "target" else "target"
            is_there = (self.folder.parent / other / "dev.jsonl").is_file()
            on_other = f", or choose on the {other}'s dev: --select-on {other}" if is_there else ""
            return f"{'Give prepare-data --dev-from-train 0.1 to take dev from train' if self.has('train') else add}" \
                   f"{on_other}."  # fmt: skip
        if split == "train" and self.role == "target":
            return (
                f"{add}; crossner pretrain-source trains without the target, and joint-train of methods with tasks"
                " without its labels: --set tasks=source-ner,target-lm --select-on source."
            )
        return f"{add}."

    def words(self) -> list[str]:
        """Distinct words of all splits, sorted: what static vectors are looked up for. Tells nothing of any tag.

        Raises:
            CrossNERError: The data were prepared by a version that kept no such list, or its file is not the one that
                the manifest tells of.
        """
        path = self.folder / "words.json"
        if not path.is_file():
            raise CrossNERError(
                f"{path} is missing: these data were prepared by an older version, which kept no list of words.",
                hint="Prepare them again: crossner prepare-data ... --force.",
            )
        check_digest(path, self.digests.get(path.name), hint=MADE_AGAIN)
        words: list[str] = json.loads(path.read_text(encoding="utf-8"))
        return words


def _digests(manifest: Manifest, beginning: str) -> dict[str, str]:
    """Digests of the files below a folder of a stage, by their names there."""
    outputs = manifest.get("outputs", {}).items()
    return {name.removeprefix(beginning): digest for name, digest in outputs if name.startswith(beginning)}


@dataclass(frozen=True)
class PreparedData:
    """What ``prepare-data`` left in a run.

    Layout of its folder: ``source/`` and ``target/`` with ``train.jsonl`` … and ``words.json``, ``corpus/LEVEL.txt``
    with ``LEVEL.mentions``, ``source-corpus/domain.txt``, ``weak-labels/train.jsonl``, ``statistics.json`` and a
    manifest whose ``domains`` tell name, role and types.
    """

    folder: Path
    digest: str
    domains: dict[str, PreparedDomain]
    scheme: str
    digests: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def load(cls, run: RunDirectory, *, wanted_by: str) -> PreparedData:
        """Find the prepared data of a run.

        Raises:
            CrossNERError: ``prepare-data`` has not been run, or another stage has its name.
        """
        manifest: Manifest = run.manifest("prepare-data", wanted_by=wanted_by)
        folder = run.folder("prepare-data")
        if manifest["stage"] != "prepare-data":
            raise CrossNERError(
                f"{folder} was made by {manifest['stage']}, not by prepare-data.",
                hint="Rename that folder and prepare the data again.",
            )
        try:
            domains = {
                role: PreparedDomain(
                    record["name"], role, folder / role, tuple(record["types"]), _digests(manifest, f"{role}/")
                )
                for role, record in manifest["result"]["domains"].items()
            }
            scheme = manifest["options"]["scheme"]
        except (KeyError, TypeError, AttributeError) as error:
            raise CrossNERError(
                f"{folder / MANIFEST} does not tell the domains of the run: {error!r}.",
                hint=MADE_AGAIN,
            ) from None
        return cls(folder, run.digest("prepare-data"), domains, scheme, _digests(manifest, ""))

    def domain(self, role: str, *, wanted_by: str) -> PreparedDomain:
        """The source or the target.

        Raises:
            CrossNERError: The run has none.
        """
        if role not in self.domains:
            raise CrossNERError(
                f"{wanted_by} needs a {role} domain, and this run was prepared without one.",
                hint=f"crossner prepare-data --{role} DATASET … --force",
            )
        return self.domains[role]

    def tag_set(self, *roles: str) -> TagSet:
        """The tags of these domains, in this order."""
        domains = {self.domains[role].name: self.domains[role].types for role in roles}
        return TagSet(domains, "bioes" if self.scheme == "bioes" else "bio")

    def raw_text(self, role: str) -> Path | None:
        """The raw text of the source or the target, all of it; None where none was prepared.

        Raises:
            CrossNERError: It is not the file that the manifest tells of.
        """
        path = self.folder / ("corpus" if role == "target" else "source-corpus") / "domain.txt"
        return self._checked(path) if path.is_file() else None

    def corpus(self, level: str) -> Path:
        """The raw text of a corpus level.

        Raises:
            CrossNERError: It was not prepared, or is not the file that the manifest tells of.
        """
        path = self.folder / "corpus" / f"{level}.txt"
        if not path.is_file():
            made = ", ".join(sorted(path.stem for path in path.parent.glob("*.txt"))) or "none"
            raise CrossNERError(
                f"This run has no corpus of level {level!r} (prepared levels: {made}).",
                hint="crossner prepare-data … --corpus FILE"
                + ("" if level == "domain" else " --entities LIST") + " --force",
            )  # fmt: skip
        return self._checked(path)

    def mentions(self, level: str) -> Path:
        """Where the listed names are in a corpus level.

        Raises:
            CrossNERError: It was prepared without names, or is not the file that the manifest tells of.
        """
        path = self.corpus(level).with_suffix(".mentions")
        if not path.is_file():
            raise CrossNERError(
                f"This run's corpus of level {level!r} was prepared without names, or by an older version.",
                hint="crossner prepare-data … --corpus FILE --entities LIST --force",
            )
        return self._checked(path)

    def _checked(self, path: Path) -> Path:
        """The path, once its file is known to be the one that the manifest tells of."""
        check_digest(path, self.digests.get(path.relative_to(self.folder).as_posix()), hint=MADE_AGAIN)
        return path
