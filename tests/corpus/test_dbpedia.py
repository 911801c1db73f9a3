"""Names from RDF: which labels are written with which types, and what is said of broken files."""

import bz2
import gzip
import random
from pathlib import Path

import pytest
from builders.dumps import OWL, RESOURCE, labels, ontology, types
from builders.events import drain
from builders.timing import within
from hypothesis import given, settings
from hypothesis import strategies as st

from crossner_cli.corpus.dbpedia import Hierarchy, write_names
from crossner_cli.corpus.triples import LABEL, TYPE, is_triples, read_triples
from crossner_cli.errors import CrossNERError
from crossner_cli.run.progress import Notice

pytest.importorskip("pyoxigraph")


def write(folder, files, language="en"):
    """Lines of the list, what was found, and notices."""
    for name, content in files.items():
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    found, events = drain(write_names([folder / name for name in files], folder / "list.tsv", language=language))
    notices = [event.text for event in events if isinstance(event, Notice)]
    return (folder / "list.tsv").read_text(encoding="utf-8").splitlines(), found, notices


def refusal(folder, files, language="en"):
    with pytest.raises(CrossNERError) as found:
        write(folder, files, language)
    assert found.value.hint
    return found.value


def test_labels_of_typed_entities_become_names(tmp_path):
    lines, found, notices = write(
        tmp_path,
        {
            "labels_lang=en.ttl": labels("Ada Roe", "Queen (band)", "Nobody", "Zoë"),
            "instance-types_lang=en_specific.ttl": types(
                "Ada_Roe:Writer", "Queen_(band):Band", f"Nobody:{OWL}Thing", "Zoë:Writer"
            ),
        },
    )
    assert lines == ["Ada Roe\tWriter", "Queen\tBand", "Zoë\tWriter"]
    assert found.types == {"Writer": 2, "Band": 1}
    assert found.counts == {
        "type_triples": 3,
        "types_without_content": 1,
        "other_triples": 0,
        "entities": 3,
        "labels": 4,
        "entities_of_several_types": 0,
        "labels_of_untyped": 1,
        "labels_without_content": 0,
    }
    assert notices[-1].startswith("RDF lists: 3 typed entities, 4 labels in 'en', 3 names written; 1 labels are of no")


@pytest.mark.parametrize(("ending", "pack"), [("", bytes), (".gz", gzip.compress), (".bz2", bz2.compress)])
def test_files_may_be_compressed_come_in_any_order_and_begin_with_a_byte_order_mark(tmp_path, ending, pack):
    given = types("Ada_Roe:Poet", "Ada_Roe:Person", "Ada_Roe:Writer", "Bob:Person")
    files = {
        f"labels.ttl{ending}": pack(labels("Ada Roe", "Bob").encode()),
        f"types.nt{ending}": pack(b"\xef\xbb\xbf" + given.encode()),
        f"ontology.nt{ending}": pack(ontology("Poet:Writer", "Writer:Person").encode()),
    }
    assert all(is_triples(Path(name)) for name in files)
    for each in (files, dict(reversed(files.items()))):
        assert write(tmp_path, each)[0] == ["Ada Roe\tPoet", "Bob\tPerson"]


def test_types_behind_many_labels_are_told_and_not_passed_over(tmp_path):
    many = labels(*(f"Name {number}" for number in range(120))) + types("Name_1:Band")
    found = refusal(tmp_path, {"mixed.nt": many, "types.nt": types("Name_2:Band")})
    assert "mixed.nt begins with 100 labels, and has types behind them" in found.problem and "types.nt" in found.hint
    few = labels(*(f"Name {number}" for number in range(50))) + types("Name_1:Band")
    (tmp_path / "few").mkdir()
    assert "Name 1\tBand" in write(tmp_path / "few", {"mixed.nt": few})[0]


def test_turtle_and_rdf_xml_are_read(tmp_path):
    turtle = (
        "@prefix : <http://x.org/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n"
        ':a a :Poet ; rdfs:label "Ada\\u0020\\"Roe\\""@en , """Die Ada"""@de ; :knows [ a :Poet ; rdfs:label "x"@en ].'
    )
    xml = (
        '<?xml version="1.0"?><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:rdfs='
        '"http://www.w3.org/2000/01/rdf-schema#"><rdfs:Class rdf:about="http://x.org/Poet">'
        '<rdfs:subClassOf rdf:resource="http://x.org/Writer"/></rdfs:Class></rdf:RDF>'
    )
    for name in ("classes.owl", "classes.rdf"):
        lines, found, _ = write(tmp_path, {"all.ttl": turtle, name: xml})
        assert lines == ['Ada "Roe"\tPoet']
        assert found.hierarchy.parents == {"http://x.org/Poet": {"http://x.org/Writer"}}
    lines, _, _ = write(tmp_path, {"all.owl": turtle}, "de")
    assert lines == ["Die Ada\tPoet"]


def test_an_entity_counts_for_its_most_specific_classes_only_where_an_ontology_tells_them(tmp_path):
    classes = ontology("Poet:Writer", "Writer:Person", "Singer:Person", "Circle:Round", "Round:Circle")
    given = types("A:Person", "A:Poet", "A:Writer", "B:Singer", "B:Poet", "B:Person", "C:Circle", "C:Round", "D:Other")
    named = labels("Aa", "Bb").replace("resource/Aa", "resource/A").replace("resource/Bb", "resource/B")
    lines, found, _ = write(tmp_path, {"t.nt": given + given, "o.nt": classes, "l.nt": named})
    assert lines == ["Aa\tPoet", "Bb\tPoet", "Bb\tSinger"]
    assert found.counts["entities_of_several_types"] == 2 and found.counts["entities"] == 4
    lines, _, notices = write(tmp_path, {"t.nt": types("A:Person", "A:Poet"), "l.nt": named})
    assert lines == ["Aa\tPerson", "Aa\tPoet"] and "no ontology tells" in notices[0]


CLASSES = st.sampled_from("abcdef")


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.lists(st.tuples(CLASSES, CLASSES), max_size=10), st.sets(CLASSES, min_size=1))
def test_classes_above_are_those_a_walk_reaches(pairs, chosen):
    hierarchy = Hierarchy()
    for below, above in pairs:
        hierarchy.parents.setdefault(below, set()).add(above)
    reach = {(a, b) for a, b in pairs}
    for _ in range(6):
        reach |= {(a, d) for a, b in reach for c, d in reach if b == c}
    for name in "abcdef":
        assert hierarchy.above(name) == {b for a, b in reach if a == name}
        assert hierarchy.below(name) == {name} | {a for a, b in reach if b == name}
    kept = hierarchy.most_specific(sorted(chosen))
    assert kept == sorted(c for c in chosen if not any((d, c) in reach and (c, d) not in reach for d in chosen))


@pytest.mark.parametrize(
    ("label", "entity_type", "names"),
    [
        ("Rock music", "MusicGenre", ["Rock music", "rock music"]),
        ("Guitar", "Instrument", ["Guitar", "guitar"]),
        ("Queen", "Band", ["Queen"]),
        ("Yes (band)", "Band", ["Yes"]),
        ("It (novel)", "Book", []),
        ("The The", "Band", []),
        ("1984 (novel)", "Book", []),
        ("A  b\tC", "Book", ["A b C"]),
        ("Paris (France) (city)", "City", ["Paris (France)"]),
    ],
)
def test_labels_are_written_as_they_stand_in_sentences(tmp_path, label, entity_type, names):
    text = f'<http://x/a> <{LABEL}> "{label}"@en .\n<http://x/b> <{LABEL}> "Bob"@en .\n'.replace("\t", "\\t")
    given = types("b:Person").replace(RESOURCE, "http://x/") + types(f"a:{entity_type}").replace(RESOURCE, "http://x/")
    lines, found, _ = write(tmp_path, {"l.nt": text, "t.nt": given})
    assert lines == [*(f"{name}\t{entity_type}" for name in names), "Bob\tPerson"]
    assert found.counts.get("labels_without_content", 0) == (not names)


def test_only_labels_of_the_language_count(tmp_path):
    files = {
        "t.nt": types("Ada:Poet"),
        "l.nt": labels("Ada") + labels("Ada", language="@de-AT") + labels("Ada", language=""),
    }
    assert len(write(tmp_path, dict(files), "EN")[0]) == len(write(tmp_path, dict(files), "none")[0]) == 1
    found = refusal(tmp_path, dict(files), "fr")
    assert "no rdfs:label in 'fr'" in found.problem and "en (1), de-at (1), none (1)" in found.problem
    assert "--language" in found.hint


BOMB = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 20}">' for n in range(1, 20))


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"l.nt": labels("Ada")}, "no rdf:type"),
        ({"t.nt": types("Ada:Poet")}, "found: no label at all"),
        ({"t.nt": types("Ada:Poet"), "l.nt": labels("Bob")}, "None of the 1 labels"),
        ({"t.nt": types("Ada:Poet") + "<a:b> <a:c> d .\n"}, "t.nt:2: this is no triple"),
        ({"t.ttl": types("Ada:Poet") + "\n<a:b> <a:c> <a:d>\n"}, "t.ttl:"),
        ({"t.nt": types("Ada:Poet").encode() + b'<a:b> <a:c> "\xff" .\n'}, "t.nt:2: this is no triple: Invalid UTF-8"),
        ({"t.rdf": "<rdf:RDF>"}, "this is no XML"),
        ({"bomb.owl": f'<!DOCTYPE r [<!ENTITY e0 "harp">{BOMB}]><rdf:RDF>&e19;</rdf:RDF>'}, "declares entities"),
    ],
)
def test_what_cannot_be_read_is_told(tmp_path, files, said):
    assert said in refusal(tmp_path, files).problem


@pytest.mark.parametrize(("ending", "pack"), [(".gz", gzip.compress), (".bz2", bz2.compress)])
def test_a_truncated_file_is_told(tmp_path, ending, pack):
    draw = random.Random(1)
    packed = pack(types(*(f"E{draw.random()}:Poet" for _ in range(14000))).encode())
    problem = refusal(tmp_path, {f"types.ttl{ending}": packed[: len(packed) // 2]}).problem
    assert "cut off" in problem and int(problem.partition(", after ")[2].split()[0]) > 1000


CHAIN = ontology(*(f"C{number}:C{number + 1}" for number in range(4000)))


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"deep.rdf": "<a>" * 60_000 + "</a>" * 60_000}, "deep.rdf:1: elements are nested more than 1,000 deep"),
        ({"o.nt": CHAIN, "t.nt": types(*(f"A:C{number}" for number in range(4000)))}, "4,000 superclasses"),
        ({"t.nt": f'<a:a> <{LABEL}> "{"a" * (17 << 20)}" .'}, "t.nt: a name or a text is longer than 16 MiB"),
    ],
    ids=["nested", "chain", "long"],
)
def test_what_would_take_time_without_bound_is_refused(tmp_path, files, said):
    with within(10):
        assert said in refusal(tmp_path, files).problem


def test_triples_that_do_not_count_are_passed_over(tmp_path):
    path = tmp_path / "x.ttl"
    path.write_text(f'_:a <{LABEL}> "x"@en . <a:b> <{TYPE}> "x" . <a:b> <{LABEL}> <a:c> . <a:b> <a:c> <a:d> .')
    assert [triple for _, triple in read_triples(path)] == [None] * 4
