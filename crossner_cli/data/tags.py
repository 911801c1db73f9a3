"""Tags and spans: every scheme is read by one rule; only BIO and BIOES are written.

The rule is conlleval's (Tjong Kim Sang 2000), the same for IOB1, IOB2 and BIOES: a chunk starts at ``B`` or ``S``, or
wherever the type changes or nothing was open, and ends before the next start or ``O``.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import Any, Literal, NamedTuple

from crossner_cli.errors import CrossNERError

Scheme = Literal["bio", "bioes"]
# Schemes of files: BILOU and BMES equal BIOES.
AnyScheme = Literal["iob1", "bio", "bioes"]
OUTSIDE = "O"
# BILOU and BMES name the same four positions differently.
PREFIXES = {"B": "B", "I": "I", "E": "E", "S": "S", "L": "E", "U": "S", "M": "I"}

# Other ways to write a tag: B_PER, b-PER, B:PER, PER-B, and a prefix alone.
_OTHER_FORM = re.compile(r"([BIESLUM])(?:[-_:/.](.+))?|(.+)[-_:/.]([BIESLUM])", re.IGNORECASE)
UNNAMED = "entity"  # the type of tags without a type
OTHER_TAG = "tag written in another way: B_person, person-B or B-person|B-place read as B-person, B as B-entity"

# Unicode categories of control characters, line and paragraph separators, and halves of a character.
STEERING = ("Cc", "Zl", "Zp", "Cs")
MOST_TYPES = 5_000  # most types of a stored tag set; with more, finding legal tag sequences takes minutes
TYPE_HINT = "The name of an entity type is not empty, and has no space at its ends and no control characters."


class Span(NamedTuple):
    """An entity: first word, word after the last, entity type. Positions count words."""

    start: int
    end: int
    type: str


def split_tag(tag: str) -> tuple[str, str]:
    """Split a tag into its prefix, one of ``B I E S O``, and its entity type, empty for ``O``.

    It is split at its first hyphen only, since types may hold hyphens (``B-Multi-tissue_structure``).

    Raises:
        ValueError: The text is not a tag of any known scheme.
    """
    if tag == OUTSIDE:
        return OUTSIDE, ""
    prefix, hyphen, entity_type = tag.partition("-")
    if not hyphen or not entity_type or prefix not in PREFIXES:
        raise ValueError(tag)
    return PREFIXES[prefix], entity_type


def is_tag(text: str) -> bool:
    """Return whether a text is a tag whose type has no control characters and no space at its ends."""
    try:
        _, entity_type = split_tag(text)
    except ValueError:
        return False
    if entity_type.strip() != entity_type:
        return False
    return entity_type.isprintable() or not any(unicodedata.category(each) in STEERING for each in entity_type)


@lru_cache(maxsize=4096)
def read_tag(text: str) -> str:
    """Read the tag that a text stands for, perhaps in another form (``B_PER``, ``PER-B``, ``B``); empty without one."""
    if text == OUTSIDE.lower():
        return OUTSIDE
    found = None if is_tag(text) else _OTHER_FORM.fullmatch(text)
    tag = f"{(found[1] or found[4]).upper()}-{found[2] or found[3] or UNNAMED}" if found else text
    return tag if is_tag(tag) else ""


def are_tags(values: Iterable[str]) -> bool:
    """Return whether texts are tags in another form, not names of types that look similar (``B_cell``)."""
    tags = {tag for tag in map(read_tag, values) if tag not in ("", OUTSIDE)}
    prefixes = {tag[0] for tag in tags}
    is_enough = len(tags) > 1 or types_of([tags]) == (UNNAMED,)
    return (
        is_enough
        and not prefixes.isdisjoint("BI")
        and any(prefixes <= {*scheme} for scheme in ("BIES", "BILU", "BMES"))
    )


def first_tag(text: str) -> str:
    """Return the first tag, except O, of several joined by ``;`` or ``|``; other texts as they are."""
    parts = text.replace("|", ";").split(";")
    if len(parts) > 1 and all(map(is_tag, parts)):
        return next((part for part in parts if part != OUTSIDE), OUTSIDE)
    return text


@lru_cache(maxsize=4096)
def is_type(name: str) -> bool:
    """Return whether a text can be the name of an entity type."""
    return is_tag(f"B-{name}")


def to_spans(tags: Sequence[str]) -> list[Span]:
    """Read the entities of one sentence by conlleval's lenient rule."""
    spans: list[Span] = []
    start, open_type, previous = 0, "", OUTSIDE
    for position, tag in enumerate(tags):
        prefix, entity_type = split_tag(tag)
        starts = prefix in "BS" or (prefix != OUTSIDE and (previous in "ESO" or entity_type != open_type))
        if open_type and (starts or prefix == OUTSIDE):
            spans.append(Span(start, position, open_type))
            open_type = ""
        if starts:
            start, open_type = position, entity_type
        previous = prefix
    if open_type:
        spans.append(Span(start, len(tags), open_type))
    return spans


def to_tags(spans: Iterable[Span], length: int, scheme: Scheme = "bio") -> list[str]:
    """Write spans that do not overlap as the tags of a sentence of ``length`` words."""
    tags = [OUTSIDE] * length
    for start, end, entity_type in spans:
        tags[start:end] = [f"I-{entity_type}"] * (end - start)
        tags[start] = f"B-{entity_type}"
        if scheme == "bioes":
            tags[end - 1] = f"E-{entity_type}" if end - start > 1 else f"S-{entity_type}"
    return tags


def scheme_shown(sentences: Iterable[Sequence[str]]) -> Scheme:
    """Return BIOES if any tag is an ``E-`` or ``S-`` (in BILOU ``L-`` or ``U-``), else BIO."""
    return "bioes" if any(tag[0] in "ESLU" for tags in sentences for tag in tags) else "bio"


def illegal_positions(tags: Sequence[str], scheme: AnyScheme) -> list[int]:
    """Find the positions of tags that cannot follow the one before (or, in BIOES, leave an entity unfinished)."""
    found = []
    previous, previous_type = OUTSIDE, ""
    for position, tag in enumerate([*tags, OUTSIDE]):
        prefix, entity_type = split_tag(tag)
        is_inside = previous in "BI" and entity_type == previous_type
        if scheme == "bioes":
            legal = is_inside if prefix in "IE" else previous not in "BI"
        elif scheme == "bio":
            legal = prefix != "I" or is_inside
        else:
            legal = prefix != "B" or is_inside
        if not legal:
            found.append(position)
        previous, previous_type = prefix, entity_type
    return found


def detect_scheme(sentences: Iterable[Sequence[str]]) -> AnyScheme:
    """Find the scheme of a data set: the one that its tags break least often, BIO in a tie."""
    seen: set[str] = set()
    broken = {"bio": 0, "iob1": 0}
    for tags in sentences:
        seen.update(tag[0] for tag in tags)
        if seen & set("ESLUM"):
            return "bioes"
        broken["bio"] += len(illegal_positions(tags, "bio"))
        broken["iob1"] += len(illegal_positions(tags, "iob1"))
    return "bio" if broken["bio"] <= broken["iob1"] else "iob1"


@dataclass(frozen=True)
class TagSet:
    """The tags of a run in fixed order, and the types that each of its domains uses, by its name."""

    domains: dict[str, tuple[str, ...]]
    scheme: Scheme = "bio"
    tags: tuple[str, ...] = field(init=False)
    _ids: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        prefixes = "BI" if self.scheme == "bio" else "BIES"
        tags = (OUTSIDE, *(f"{prefix}-{entity_type}" for entity_type in self.types for prefix in prefixes))
        object.__setattr__(self, "tags", tags)
        object.__setattr__(self, "_ids", {tag: number for number, tag in enumerate(tags)})

    @property
    def types(self) -> tuple[str, ...]:
        """Every entity type once, in the order of first use."""
        return tuple(dict.fromkeys(entity_type for types in self.domains.values() for entity_type in types))

    def __len__(self) -> int:
        return len(self.tags)

    def type_numbers(self) -> list[int]:
        """Return the type of each tag, (K,): 0 for O, k for the k-th of ``types``."""
        numbers = {entity_type: number for number, entity_type in enumerate(self.types, start=1)}
        return [0 if tag == OUTSIDE else numbers[split_tag(tag)[1]] for tag in self.tags]

    def of(self, domain: str) -> list[bool]:
        """Return for each tag, (K,), whether the domain uses it. A domain unknown to the set uses all."""
        types = frozenset(self.domains.get(domain, self.types))
        return [tag == OUTSIDE or split_tag(tag)[1] in types for tag in self.tags]

    def choose_domain(self, name: str, types: Iterable[str], *others: str) -> str:
        """Choose the domain under which a data set is tagged: the first that has all its types that the set knows.

        Its own name comes first, but two folders may have the same name and other types; then ``others``, then the
        set's own order. If none fits, the result is not a name of any of its domains, for which all tags are allowed.
        """
        known = set(types).intersection(self.types)
        domains = (name, *others, *self.domains)
        return next((domain for domain in domains if known <= set(self.domains.get(domain, ()))), "")

    def legal_moves(self) -> tuple[list[bool], list[list[bool]], list[bool]]:
        """Return which tags may begin a sentence, (K,), follow each other, (K, K), and end it, (K,)."""
        start = [0 not in illegal_positions([tag], self.scheme) for tag in self.tags]
        follow = [[1 not in illegal_positions([tag, then], self.scheme) for then in self.tags] for tag in self.tags]
        stop = [1 not in illegal_positions([tag], self.scheme) for tag in self.tags]
        return start, follow, stop

    def to_ids(self, tags: Sequence[str]) -> list[int]:
        """Number the tags of a sentence.

        Raises:
            CrossNERError: A tag is not in the set.
        """
        try:
            return [self._ids[tag] for tag in tags]
        except KeyError as unknown:
            raise CrossNERError(
                f"Tag {unknown.args[0]!r} is not among the types of this model: {', '.join(self.types)}.",
                hint="Train on data that has this type, or map it away before scoring.",
            ) from None

    def from_ids(self, ids: Iterable[int]) -> list[str]:
        """Name the tags of a sentence."""
        return [self.tags[number] for number in ids]

    def to_json(self) -> dict[str, Any]:
        """Make the record that ``from_json`` reads."""
        return {"scheme": self.scheme, "domains": {name: list(types) for name, types in self.domains.items()}}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> TagSet:
        """Rebuild a stored tag set.

        Raises:
            ValueError: The record has no domain, a type that is not a name, or another scheme.
        """
        domains, scheme = record.get("domains"), record.get("scheme")
        if not isinstance(domains, dict) or not domains:
            raise ValueError("it has no domain")
        for name, types in domains.items():
            if not isinstance(types, list) or not all(isinstance(each, str) and is_type(each) for each in types):
                raise ValueError(f"the types of {name} are not a list of names")
        if sum(map(len, domains.values())) > MOST_TYPES:
            raise ValueError(f"it has more than {MOST_TYPES:,} types")
        if scheme not in ("bio", "bioes"):
            raise ValueError("its scheme is neither bio nor bioes")
        return cls({name: tuple(types) for name, types in domains.items()}, scheme)


def types_of(*sides: Sequence[Iterable[str]]) -> tuple[str, ...]:
    """List the entity types in tags, in alphabetical order."""
    tags = {tag for side in sides for tag in set(chain.from_iterable(side))}
    return tuple(sorted({split_tag(tag)[1] for tag in tags} - {""}))
