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

from crossner_cli.corpus.dbpedia import find_most_specific, reach, write_names
from crossner_cli.corpus.triples import LABEL, TYPE, Triple, is_triples, read_triples
from crossner_cli.errors import CrossNERError
from crossner_cli.run.progress import Notice

pytest.importorskip("pyoxigraph")


def write(folder, files):
    """Lines of the list, what was found, and notices."""
    for name, content in files.items():
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    found, events = drain(write_names([folder / name for name in files], folder / "list.tsv"))
    notices = [event.text for event in events if isinstance(event, Notice)]
    return (folder / "list.tsv").read_text(encoding="utf-8").splitlines(), found, notices


def refusal(folder, files):
    with pytest.raises(CrossNERError) as found:
        write(folder, files)
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
        "entities": 3,
        "entities_of_several_types": 0,
        "labels": 4,
        "labels_of_untyped": 1,
        "labels_without_content": 0,
    }
    assert notices[-1].startswith(
        "RDF lists: 3 typed entities, 4 labels in 'en', 3 names written; 1 labels belong to no"
    )


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


def test_turtle_is_read_with_its_short_forms_and_without_blank_nodes(tmp_path):
    turtle = (
        "@prefix : <http://x.org/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n"
        ':a a :Poet ; rdfs:label "Ada\\u0020\\"Roe\\""@en , """Die Ada"""@de ; :knows [ a :Poet ; rdfs:label "x"@en ].'
    )
    classes = ontology("Poet:Writer").replace("http://dbpedia.org/ontology/", "http://x.org/")
    lines, found, _ = write(tmp_path, {"all.ttl": turtle, "classes.nt": classes})
    assert lines == ['Ada "Roe"\tPoet'] and found.superclasses == {"http://x.org/Poet": {"http://x.org/Writer"}}


@pytest.mark.parametrize("name", ["classes.owl", "classes.rdf.gz"])
def test_rdf_xml_whose_entities_could_fill_the_memory_is_not_read(name):
    with pytest.raises(CrossNERError, match="RDF/XML is not read") as found:
        is_triples(Path(name))
    assert "rapper" in found.value.hint


def test_an_entity_counts_for_its_most_specific_classes_only_where_an_ontology_says_which(tmp_path):
    classes = ontology("Poet:Writer", "Writer:Person", "Singer:Person", "Circle:Round", "Round:Circle")
    given = types("A:Person", "A:Poet", "A:Writer", "B:Singer", "B:Poet", "B:Person", "C:Circle", "C:Round", "D:Other")
    named = labels("Aa", "Bb").replace("resource/Aa", "resource/A").replace("resource/Bb", "resource/B")
    lines, found, _ = write(tmp_path, {"t.nt": given + given, "o.nt": classes, "l.nt": named})
    assert lines == ["Aa\tPoet", "Bb\tPoet", "Bb\tSinger"]
    assert found.counts["entities_of_several_types"] == 2 and found.counts["entities"] == 4
    lines, _, notices = write(tmp_path, {"t.nt": types("A:Person", "A:Poet"), "l.nt": named})
    assert lines == ["Aa\tPerson", "Aa\tPoet"] and "no ontology says" in notices[0]


CLASSES = st.sampled_from("abcdef")


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.lists(st.tuples(CLASSES, CLASSES), max_size=10), st.sets(CLASSES, min_size=1))
def test_most_specific_classes_are_above_no_other_that_is_not_above_them(pairs, chosen):
    superclasses = {}
    for below, above in pairs:
        superclasses.setdefault(below, set()).add(above)
    reached = {(a, b) for a, b in pairs}
    for _ in range(6):
        reached |= {(a, d) for a, b in reached for c, d in reached if b == c}
    for name in "abcdef":
        assert reach([name], superclasses) == {b for a, b in reached if a == name}
    kept = find_most_specific(sorted(chosen), superclasses)
    assert kept == sorted(c for c in chosen if not any((d, c) in reached and (c, d) not in reached for d in chosen))


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
    assert found.counts["labels_without_content"] == (not names)


def test_labels_count_in_the_language_that_most_have(tmp_path):
    files = {"t.nt": types("Ada:Poet", "Eva:Poet"), "l.nt": labels("Ada", "Eva", language="@de-AT") + labels("Bob")}
    lines, _, notices = write(tmp_path, files)
    assert lines == ["Ada\tPoet", "Eva\tPoet"] and "2 labels in 'de-at'" in notices[-1]
    files["l.nt"] += labels("Ada")
    assert write(tmp_path, files)[0] == ["Ada\tPoet"], "of equals English is read"


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"l.nt": labels("Ada")}, "no rdf:type"),
        ({"t.nt": types("Ada:Poet")}, "There is no rdfs:label"),
        ({"t.nt": types("Ada:Poet"), "l.nt": labels("Bob")}, "None of the 1 labels"),
        ({"t.nt": types("Ada:Poet") + "<a:b> <a:c> d .\n"}, "t.nt:2: this is not a triple"),
        ({"t.ttl": types("Ada:Poet") + "\n<a:b> <a:c> <a:d>\n"}, "t.ttl:"),
        (
            {"t.nt": types("Ada:Poet").encode() + b'<a:b> <a:c> "\xff" .\n'},
            "t.nt:2: this is not a triple: Inv",
        ),
    ],
)
def test_what_cannot_be_read_is_reported(tmp_path, files, said):
    assert said in refusal(tmp_path, files).problem


@pytest.mark.parametrize(("ending", "pack"), [(".gz", gzip.compress), (".bz2", bz2.compress)])
def test_a_truncated_file_is_reported(tmp_path, ending, pack):
    draw = random.Random(1)
    packed = pack(types(*(f"E{draw.random()}:Poet" for _ in range(14000))).encode())
    problem = refusal(tmp_path, {f"types.ttl{ending}": packed[: len(packed) // 2]}).problem
    assert "cut off" in problem and int(problem.partition(", after ")[2].split()[0]) > 1000


CHAIN = ontology(*(f"C{number}:C{number + 1}" for number in range(4000)))


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"o.nt": CHAIN, "t.nt": types(*(f"A{number}:C{number}" for number in range(4000)))}, "4,000 superclasses"),
        ({"t.nt": types(*(f"A:C{number}" for number in range(100_000)))}, "A has more than 1,000 classes"),
        ({"t.nt": f'<a:a> <{LABEL}> "{"a" * (17 << 20)}" .'}, "t.nt: a name or a text is longer than 16 MiB"),
    ],
    ids=["chain", "classes", "long"],
)
def test_what_would_take_time_or_memory_without_bound_is_refused(tmp_path, files, said):
    with within(10):
        assert said in refusal(tmp_path, files).problem


def test_triples_that_do_not_count_are_passed_over(tmp_path):
    path = tmp_path / "x.ttl"
    path.write_text(f'_:a <{LABEL}> "x"@en . <a:b> <{TYPE}> "x" . <a:b> <{LABEL}> <a:c> . <a:b> <a:c> <a:d> .')
    assert [each for each in read_triples(path) if isinstance(each, Triple)] == []
