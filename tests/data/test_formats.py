"""Files of every common tool: recognised by what they hold, read without conversion, nothing dropped in silence."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from builders.timing import within
from hypothesis import given
from hypothesis import strategies as st

from crossner_cli.data.domains import find_domain
from crossner_cli.data.files import Repairs
from crossner_cli.data.formats import brat, jsonl, label_studio, langextract, prodigy, strings, tagged_text
from crossner_cli.data.formats.conll import COMMENT, SPACED_WORD, SURFACE_ROW
from crossner_cli.data.formats.known import FORMATS
from crossner_cli.data.formats.spans import OTHER_TEXT, OVERLAPPING_ENTITY
from crossner_cli.data.formats.strings import locate_strings
from crossner_cli.data.formats.tagged_text import parse_tags
from crossner_cli.data.labelled import LabelledDomain, read_domain, recognise
from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import OTHER_TAG, to_spans
from crossner_cli.errors import BadLine, CrossNERError

TEXT = "Anna Beck lives in Rome."
WORDS = ("Anna", "Beck", "lives", "in", "Rome", ".")
GOLD = [Sentence(WORDS, ("B-per", "I-per", "O", "O", "B-loc", "O"))]
SPANS = [[0, 9, "per"], [19, 23, "loc"]]


def entities(start: str = "start", end: str = "end", label: str = "label", **more: Any) -> list[dict[str, Any]]:
    return [{start: first, end: behind, label: kind, **more} for first, behind, kind in SPANS]


def result(start: int, end: int, *labels: str, text: str | None = None) -> dict[str, Any]:
    value = {"start": start, "end": end, "text": TEXT[start:end] if text is None else text, "labels": list(labels)}
    return {"id": "a", "from_name": "label", "to_name": "text", "type": "labels", "value": value}


def task(*annotations: Any, **data: Any) -> dict[str, Any]:
    return {"id": 1, "data": data or {"text": TEXT}, "annotations": list(annotations)}


def done(*results: dict[str, Any], cancelled: bool = False) -> dict[str, Any]:
    return {"was_cancelled": cancelled, "result": list(results)}


LABELLED = done(result(0, 9, "per"), result(19, 23, "loc"))
# A file of each format, as JSON values of lines or of an array, or as text; each holds GOLD.
FILES: dict[str, tuple[str, str]] = {
    "conll": ("train.txt", "Anna B-per\nBeck I-per\nlives O\nin O\nRome B-loc\n. O\n"),
    "jsonl": ("train.jsonl", json.dumps({"words": WORDS, "tags": GOLD[0].tags}) + "\n"),
    "label-studio": ("train.json", json.dumps([task(LABELLED)], indent=1)),
    "prodigy": ("train.jsonl", json.dumps({"text": TEXT, "spans": entities(), "answer": "accept"})),
    "doccano": ("train.jsonl", json.dumps({"id": 3, "text": TEXT, "label": SPANS, "Comments": []})),
    "spacy-lists": ("train.json", json.dumps([[TEXT, {"entities": SPANS}]])),
    "gliner": ("train.json", json.dumps([{"tokenized_text": WORDS, "ner": [[0, 1, "per"], [4, 4, "loc"]]}])),
    "gliner2": (
        "train.jsonl",
        json.dumps({"input": TEXT, "output": {"entities": {"per": ["Anna Beck"], "loc": ["Rome"]}}}),
    ),
    "langextract": (
        "train.jsonl",
        json.dumps(
            {
                "text": TEXT,
                "extractions": [
                    {"extraction_class": kind, "char_interval": {"start_pos": start, "end_pos": end}}
                    for start, end, kind in SPANS
                ],
            }
        ),
    ),
    "strings": (
        "train.jsonl",
        json.dumps({"text": TEXT, "entities": [{"text": TEXT[a:b], "type": kind} for a, b, kind in SPANS]}),
    ),
    "tags": ("train.txt", '<per>Anna Beck</per> lives in <entity type="loc">Rome</entity>.\n'),
}


def read(path: Path, **options: Any) -> LabelledDomain:
    return read_domain({"train": [path]}, **options)


def written(folder: Path, content: Any, name: str = "train.jsonl") -> Path:
    """A file of text, or of one JSON value a line."""
    path = folder / name
    lines = content if isinstance(content, str) else "\n".join(map(json.dumps, content))
    path.write_text(lines, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_recognised_by_what_it_holds_and_told(tmp_path: Path, name: str) -> None:
    file, content = FILES[name]
    path = written(tmp_path, content, file)
    assert recognise(path).name == name
    found = read(path)
    assert found.splits["train"] == GOLD and not found.repairs.counts and not found.repairs.warnings
    if name != "conll":
        assert found.repairs.notes[0].startswith(f"{path}: read as {FORMATS[name].title}, 1 ")
    assert read(path, labels_format=name).splits["train"] == GOLD
    assert find_domain(str(path)).files == find_domain(str(tmp_path)).files == {"train": [path]}


def test_every_format_that_is_read_is_tried_here_and_described_in_the_documents() -> None:
    read = {name for name, row in FORMATS.items() if row.reads}
    assert read == {*FILES, "parquet", "spacy", "brat"}
    page = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
    assert read == set(re.findall(r"^\| `([\w-]+)` \|", page, re.MULTILINE))


def test_a_wrong_name_of_a_format_or_of_columns_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, FILES["conll"][1], "train.txt")
    with pytest.raises(CrossNERError, match="not a format that is read") as caught:
        read(path, labels_format="prodgy")
    assert "Did you mean 'prodigy'" in caught.value.hint
    for columns in ("2", "word=1,tag=1", "word=0,tag=2"):
        with pytest.raises(CrossNERError, match="names no two columns"):
            read(path, columns=columns)


class TestLabelStudio:
    def test_skipped_and_unlabelled_tasks_are_no_gold_and_the_last_finished_annotation_counts(self, tmp_path) -> None:
        wrong = done(result(5, 9, "loc"))
        tasks = [
            task(wrong, LABELLED, done(result(5, 9, "per"), cancelled=True)),
            task(done(cancelled=True)),
            task(),
            task(done()),
        ]
        found = read(written(tmp_path, json.dumps(tasks), "train.json"))
        assert found.splits["train"] == [*GOLD, Sentence(WORDS, ("O",) * 6)]
        assert found.repairs.counts == {label_studio.SKIPPED_TASK: 1, label_studio.UNLABELLED_TASK: 1}
        assert found.repairs.notes[0].endswith("read as Label Studio JSON, 2 tasks, 1 skipped, 1 unlabelled")

    def test_what_is_left_out_is_told_of_the_file_that_has_it(self, tmp_path) -> None:
        paths = [tmp_path / name for name in ("train.json", "dev.json")]
        for path, tasks in zip(paths, ([task(LABELLED), task(done(cancelled=True))], [task(LABELLED)]), strict=True):
            written(tmp_path, json.dumps(tasks), path.name)
        first, second = read_domain({"train": paths[:1], "dev": paths[1:]}).repairs.notes
        assert first.endswith("1 tasks, 1 skipped") and second.endswith("1 tasks")

    def test_relations_and_choices_are_counted_and_of_several_labels_the_first_is_kept(self, tmp_path) -> None:
        others = [{"type": "relation", "from_id": "a", "to_id": "b"}, {"type": "choices", "value": {"choices": ["x"]}}]
        several = done(result(0, 9, "per", "org"), result(19, 23, "loc"), result(19, 23, "city"), *others)
        found = read(written(tmp_path, json.dumps([task(several)]), "train.json"))
        assert found.splits["train"] == GOLD
        assert found.repairs.counts == {label_studio.SEVERAL_LABELS: 2, label_studio.OTHER_RESULT: 2}

    def test_the_text_has_any_key_and_the_minimal_export_is_read_alike(self, tmp_path) -> None:
        data = {"id": "A text of the user that is longer", "reviewText": TEXT, "n": 3}
        assert read(written(tmp_path, json.dumps([task(LABELLED, **data)]), "train.json")).splits["train"] == GOLD
        minimal = {"reviewText": TEXT, "label": [each["value"] for each in LABELLED["result"]], "annotator": 1, "id": 4}
        nothing = {"reviewText": "Yes.", "annotation_id": 3}
        found = read(written(tmp_path, json.dumps([minimal, nothing, {"reviewText": "No."}]), "train.json"))
        assert found.splits["train"] == [*GOLD, Sentence(("Yes", "."), ("O", "O"))]
        assert found.repairs.counts == {label_studio.UNLABELLED_TASK: 1}

    def test_offsets_count_as_in_javascript_and_win_over_white_space_and_escapes(self, tmp_path) -> None:
        text = "\U0001f600 Anna\nBeck"
        shown = [result(3, 12, "per", text="Anna\\nBeck")]
        found = read(written(tmp_path, json.dumps([task(done(*shown), text=text)]), "train.json"))
        assert found.splits["train"] == [Sentence(("\U0001f600", "Anna", "Beck"), ("O", "B-per", "I-per"))]
        assert found.repairs.counts == {OTHER_TEXT: 1}
        with pytest.raises(CrossNERError, match="record 1: found the entity .*'Bob'"):
            read(written(tmp_path, json.dumps([task(done(result(0, 9, "per", text="Bob")))]), "train.json"))

    @pytest.mark.parametrize("has_text", [True, False])
    def test_labels_of_two_texts_lie_each_on_its_own(self, tmp_path, has_text: bool) -> None:
        data = {"title": "Rome", "body": TEXT, "id": "a longer text that is not labelled, whatever it holds"}
        of_title, (person, place) = result(0, 4, "loc", text="Rome"), LABELLED["result"]
        results = [{**of_title, "to_name": "title"}, {**person, "to_name": "body"}, {**place, "to_name": "body"}]
        for each in results if not has_text else ():
            del each["value"]["text"]
        tasks = [task(done(*results), **data), task(done(), **data)]
        found = read(written(tmp_path, json.dumps(tasks), "train.json"))
        title, plain = Sentence(("Rome",), ("B-loc",)), [Sentence(each.words, ("O",) * 6) for each in GOLD]
        assert found.splits["train"] == [title, *GOLD, Sentence(("Rome",), ("O",)), *plain]
        assert found.repairs.notes[0].endswith("2 tasks")
        others = {"head": data["title"], "text": TEXT}
        path = written(tmp_path, json.dumps([task(done(*results), **others)]), "train.json")
        if has_text:
            assert [*GOLD] == read(path).splits["train"][-1:]
        else:
            with pytest.raises(CrossNERError, match="labels of 'title', and the texts of the task are head, text"):
                read(path)

    @pytest.mark.parametrize("address", ["/data/upload/1/a.txt", "https://example.org/a.txt", "s3://bucket/a.txt"])
    def test_a_text_that_is_an_address_is_refused_unless_it_is_itself_labelled(self, tmp_path, address: str) -> None:
        with pytest.raises(CrossNERError, match="a text that is elsewhere, at") as caught:
            read(written(tmp_path, json.dumps([task(LABELLED, text=address)]), "train.json"))
        assert "'text'" in caught.value.hint
        labelled = task(done(result(0, len(address), "link", text=address)), text=address)
        assert read(written(tmp_path, json.dumps([labelled]), "train.json")).types == ("link",)

    def test_labels_of_html_and_dialogues_are_refused(self, tmp_path) -> None:
        value = {"start": "0", "end": "0", "startOffset": 0, "endOffset": 4, "text": "Anna", "paragraphlabels": ["per"]}
        data = {"text": TEXT, "dialogue": [{"author": "Bob", "text": "Anna Beck"}]}
        minimal = {**data, "label": [value], "annotator": 1}
        html = task(done({"to_name": "text", "value": {"start": "/p[1]", "hypertextlabels": ["per"]}}))
        alone = task(done({"to_name": "d", "value": value}), dialogue=data["dialogue"])
        for wrong in (task(done({"to_name": "text", "value": value}), **data), minimal, html, alone):
            with pytest.raises(CrossNERError, match="labels of HTML or of a dialogue"):
                read(written(tmp_path, json.dumps([wrong]), "train.json"))

    def test_whole_words_win_over_the_text_that_was_marked(self, tmp_path) -> None:
        marked = done(result(0, 9, "per", text="nna Bec"), result(19, 23, "loc", text="Rom"))
        found = read(written(tmp_path, json.dumps([task(marked)]), "train.json"))
        assert found.splits["train"] == GOLD and found.repairs.counts == {OTHER_TEXT: 2}
        with pytest.raises(CrossNERError, match="'Anna'.*, which is 'Anna Beck'"):
            read(written(tmp_path, json.dumps([task(done(result(0, 9, "per", text="Anna")))]), "train.json"))


class TestTextsWithPlaces:
    def test_answers_of_prodigy_count_for_examples_and_spans_and_one_input_is_one_text(self, tmp_path) -> None:
        first, second = entities()
        lines = [
            {"text": TEXT, "_input_hash": 1, "spans": [first, {**first, "label": "x", "answer": "reject"}]},
            {"text": TEXT, "_input_hash": 1, "spans": [second], "answer": "accept"},
            {"text": TEXT, "_input_hash": 1, "spans": [{**first, "label": "y"}], "answer": "ignore"},
            {"text": "Yes.", "_input_hash": 2},
        ]
        found = read(written(tmp_path, lines))
        assert found.splits["train"] == [*GOLD, Sentence(("Yes", "."), ("O", "O"))]
        counts = {jsonl.REFUSED_SPAN: 1, jsonl.REFUSED_EXAMPLE: 1, prodigy.MERGED_EXAMPLE: 1}
        assert found.repairs.counts == counts

    def test_the_same_text_with_other_labels_is_a_warning_with_the_first_lines(self, tmp_path) -> None:
        lines = [{"text": TEXT, "label": SPANS[:1]}, {"text": TEXT, "label": SPANS}, {"text": TEXT, "label": SPANS[:1]}]
        path = written(tmp_path, lines)
        assert (
            f"1 sentences are repeated in a split with other labels (first: {path}:2)." in read(path).repairs.warnings
        )

    def test_doccano_names_its_text_data_and_numbers_as_labels_are_refused_with_the_reason(self, tmp_path) -> None:
        assert read(written(tmp_path, [{"id": 1, "data": TEXT, "label": SPANS}])).splits["train"] == GOLD
        relations = {"id": 1, "text": TEXT, "entities": entities("start_offset", "end_offset"), "relations": []}
        assert read(written(tmp_path, [relations])).splits["train"] == GOLD
        with pytest.raises(CrossNERError, match="the type 7, a number") as caught:
            read(written(tmp_path, [{"id": 1, "text": TEXT, "label": [[0, 9, 7]]}]))
        assert "names of the labels" in caught.value.hint

    def test_extractions_without_a_place_or_placed_by_likeness_are_counted(self, tmp_path) -> None:
        kept = [
            {
                "extraction_class": kind,
                "char_interval": {"start_pos": a, "end_pos": b},
                "alignment_status": "match_exact",
            }
            for a, b, kind in SPANS
        ]
        lost = [
            {"extraction_class": "per", "char_interval": None},
            {**kept[0], "extraction_class": "x", "alignment_status": "match_fuzzy"},
        ]
        found = read(written(tmp_path, [{"text": TEXT, "extractions": [*kept, *lost]}]))
        assert found.splits["train"] == GOLD and found.repairs.counts == {langextract.NOT_ALIGNED: 2}

    def test_a_bad_record_is_named_or_counted_wherever_it_stands(self, tmp_path) -> None:
        good, bad = {"text": TEXT, "label": SPANS, "id": 1}, {"text": TEXT, "label": [[0, 99, "per"]], "id": 2}
        for number, lines in enumerate(([bad, good], [good, bad])):
            path = written(tmp_path, lines)
            with pytest.raises(CrossNERError, match=f"train.jsonl:{number + 1}: found the entity"):
                read(path)
            found = read(path, skips_bad_lines=True)
            assert found.splits["train"] == GOLD and found.repairs.to_json()["bad line skipped"]["count"] == 1
        cut = written(tmp_path, f'{json.dumps(good)}\n{{"text": "Ann\n')
        with pytest.raises(CrossNERError, match="train.jsonl:2: found"):
            read(cut)
        broken = written(tmp_path, '{"text": "Ann\n' + json.dumps(good))
        assert read(broken, skips_bad_lines=True).splits["train"] == GOLD

    def test_offsets_that_cut_most_entities_are_a_warning(self, tmp_path) -> None:
        shifted = [[start + 1, end - 1, kind] for start, end, kind in SPANS]
        (warning,) = read(written(tmp_path, [{"text": TEXT, "label": shifted}] * 2)).repairs.warnings
        assert "4 of 4 entities begin or end inside words" in warning

    def test_korean_entities_get_whole_words_and_the_warning_says_so(self, tmp_path) -> None:
        lines = [{"text": "민수는 서울에서 산다.", "label": [[0, 2, "per"], [4, 6, "loc"]]}]
        found = read(written(tmp_path, lines))
        assert found.splits["train"][0].tags == ("B-per", "B-loc", "O", "O")
        assert "An entity gets whole words, the particles of Korean with them" in found.repairs.warnings[0]

    @pytest.mark.parametrize(
        ("parts", "kinds"),
        [
            (["สมชาย", "ไป", "กรุงเทพ", "ทำ"], "per  loc "),
            (["សុខា", "ទៅ", "ភ្នំពេញ"], "per  loc"),
            (["ສົມ", "ໄປ", "ນໍ້າ"], "per  loc"),
            (["အောင်", "သွား", "မြို့"], "per  loc"),
        ],
    )
    def test_entities_of_scripts_without_spaces_are_exact(self, tmp_path, parts: list[str], kinds: str) -> None:
        text, places = "".join(parts), [0]
        for part in parts:
            places.append(places[-1] + len(part))
        spans = [[places[0], places[1], "per"], [places[2], places[3], "loc"]]
        found = read(written(tmp_path, [{"text": text, "label": spans}]))
        (sentence,) = found.splits["train"]
        names = ["".join(sentence.words[span.start : span.end]) for span in to_spans(sentence.tags or ())]
        assert names == [parts[0], parts[2]] and not found.repairs.counts and not found.repairs.warnings

    @pytest.mark.parametrize("key", ["label", "labels", "entities", "spans"])
    def test_null_as_labels_is_none_and_counted(self, tmp_path, key: str) -> None:
        found = read(written(tmp_path, [{"text": TEXT, key: SPANS}, {"text": "Yes.", key: None}]))
        assert found.splits["train"] == [*GOLD, Sentence(("Yes", "."), ("O", "O"))]
        assert found.repairs.counts == {jsonl.NULL_LABELS: 1}

    def test_an_input_hash_of_any_form_is_read(self, tmp_path) -> None:
        lines = [{"text": TEXT, "_input_hash": [1], "spans": entities()}, {"text": "Yes.", "_input_hash": {}}]
        assert len(read(written(tmp_path, lines)).splits["train"]) == 2


class TestStringsAndTags:
    def test_tags_of_html_are_left_out_and_counted(self, tmp_path) -> None:
        content = '<p class="x"><per>Anna <b>Beck</b></per> lives<br>in <i><loc>Rome</loc></i>.<br/>\n'
        found = read(written(tmp_path, content, "train.txt"))
        assert found.splits["train"] == GOLD and found.repairs.counts == {tagged_text.HTML_TAG: 7}

    def test_strings_are_found_longest_first_at_words_and_everywhere(self) -> None:
        text = "New York and York. Yorkshire, New York!"
        found, lost = locate_strings(text, [("York", "a"), ("New York", "b"), ("Leeds", "c")])
        assert [(text[each.start : each.end], each.type) for each in found] == [
            ("New York", "b"),
            ("York", "a"),
            ("New York", "b"),
        ]
        assert lost == {strings.UNFOUND: 1}

    def test_a_string_of_several_types_is_taken_in_order_or_counted_as_ambiguous(self) -> None:
        pairs = [("Washington", "person"), ("Washington", "city")]
        found, lost = locate_strings("Washington left Washington.", pairs)
        assert [each.type for each in found] == ["person", "city"] and not lost
        found, lost = locate_strings("Washington left.", pairs)
        assert not found and lost == {strings.AMBIGUOUS: 2}

    def test_the_share_of_strings_that_were_lost_is_told(self, tmp_path) -> None:
        lines = [{"text": TEXT, "entities": [{"text": "Anna Beck", "type": "per"}, {"text": "Bob", "type": "per"}]}]
        found = read(written(tmp_path, lines))
        assert found.repairs.counts == {strings.UNFOUND: 1}
        assert "1 of 2 entity strings (50.0 %) left out" in found.repairs.warnings[0]

    @given(st.text("ab .>&é", max_size=12), st.text("abé", min_size=1, max_size=6), st.text("ab .< &é", max_size=12))
    def test_tags_come_off_and_leave_the_text_as_it_is(self, before: str, inside: str, behind: str) -> None:
        text, found, nested = parse_tags(f"{before}<per>{inside}</per>{behind}")
        assert text == before + inside + behind and not nested
        ((start, end),) = [(each.start, each.end) for each in found]
        assert text[start:end] == inside

    @pytest.mark.parametrize("text", ["<per>Anna", "Anna</per>", "<per>Anna</loc>", "<x><y>x</x></y>"])
    def test_a_tag_that_is_not_closed_is_refused_with_its_place(self, tmp_path, text: str) -> None:
        with pytest.raises(BadLine):
            parse_tags(text)
        path = written(tmp_path, f"<per>Bob</per> left.\n{text}\n", "train.txt")
        with pytest.raises(CrossNERError, match=r"train.txt:2: "):
            read(path)


class TestColumns:
    @pytest.mark.parametrize(
        ("content", "told"),
        [
            ("1\tAnna\tB-per\n2\tBeck\tI-per\n3\tlives\tO\n4\tin\tO\n5\tRome\tB-loc\n6\t.\tO\n", "word 2, tag 3"),
            ("Anna per\nBeck per\nlives O\nin O\nRome loc\n. O\n", "without prefixes"),
            ("Anna N B-NP B-per\nBeck N I-NP I-per\nlives V B-VP O\nin P B-PP O\nRome N B-NP B-loc\n. . O O\n", "tag"),
            ("Anna\tB-per\tx\nBeck\tI-per\tx\nlives\tO\tx\nin\tO\tx\nRome\tB-loc\tx\n.\tO\tx\n", "word 1, tag 2"),
            (
                "# global.columns = ID FORM UPOS NER:BIO\n1\tAnna\tN\tB-per\n2\tBeck\tN\tI-per\n3\tlives\tV\tO\n"
                "4\tin\tP\tO\n5\tRome\tN\tB-loc\n6\t.\tX\tO\n",
                "word 2, tag 4",
            ),
            (
                "#begin document (bc/x); part 000\n"
                + "".join(
                    f"bc/x 0 {number} {word} X (S* - - - - {ner} (V*) (3)\n"
                    for number, (word, ner) in enumerate(
                        zip(WORDS, ["(per*", "*)", "*", "*", "(loc)", "*"], strict=True)
                    )
                )
                + "\n#end document\n",
                "word 4, tag 11 in brackets",
            ),
        ],
    )
    def test_words_and_tags_are_found_and_told(self, tmp_path: Path, content: str, told: str) -> None:
        found = read(written(tmp_path, content, "train.conll"))
        assert found.splits["train"] == GOLD
        assert any(told in note for note in found.repairs.notes)

    def test_of_several_columns_of_tags_all_are_told_and_the_user_may_choose(self, tmp_path: Path) -> None:
        rows = [("Anna", "B-per", "O"), ("Beck", "I-per", "O"), ("in", "O", "O"), ("Rome", "B-loc", "B-code")]
        path = written(tmp_path, "".join("\t".join(row) + "\n" for row in rows), "train.txt")
        found = read(path)
        assert found.types == ("per", "loc")
        assert "2 (2 entities of 2 types), 3 (1 entities of 1 types)" in found.repairs.notes[0]
        assert read(path, columns="word=1,tag=3").types == ("code",)

    @pytest.mark.parametrize("form", ["{0}_{1}", "{0}:{1}", "{1}-{0}"])
    def test_tags_in_another_form_are_read_and_told(self, tmp_path: Path, form: str) -> None:
        tags = [form.format(*tag.split("-")) if "-" in tag else tag for tag in GOLD[0].tags or ()]
        content = "".join(f"{word}\t{tag}\n" for word, tag in zip(WORDS, tags, strict=True))
        found = read(written(tmp_path, content, "train.tsv"))
        assert found.splits["train"] == GOLD
        assert found.repairs.to_json()[OTHER_TAG] == {
            "count": 3,
            "first": [f"{tmp_path}/train.tsv:{n}" for n in (1, 2, 5)],
        }
        found = read(written(tmp_path, [{"words": WORDS, "tags": tags}]))
        assert found.splits["train"] == GOLD and found.repairs.counts == {OTHER_TAG: 3}

    @pytest.mark.parametrize("tags", ["BIOBO", "BEOSO", "BLOUO"])
    def test_tags_without_a_type_are_entities_and_told(self, tmp_path: Path, tags: str) -> None:
        content = "".join(f"{word}\t{tag}\n" for word, tag in zip("abcde", tags, strict=True))
        found = read(written(tmp_path, content, "train.tsv"))
        assert found.types == ("entity",)
        assert found.splits["train"][0].tags == ("B-entity", "I-entity", "O", "B-entity", "O")
        assert found.repairs.counts == {OTHER_TAG: 3}

    def test_of_several_tags_in_a_cell_the_first_is_taken_and_counted(self, tmp_path: Path) -> None:
        content = "Anna B-per|B-loc\nBeck I-per\nlives O\nin O|O\nRome O;B-loc\n. O\n"
        found = read(written(tmp_path, content, "train.txt"))
        assert found.splits["train"] == GOLD and found.repairs.counts == {OTHER_TAG: 3}
        record = {"words": WORDS, "tags": ["B-per|B-loc", "I-per", "O", "O", "B-loc", "O"]}
        found = read(written(tmp_path, [record]))
        assert found.splits["train"] == GOLD and found.repairs.counts == {OTHER_TAG: 1}

    def test_a_row_without_a_tag_names_the_column_that_holds_tags(self, tmp_path: Path) -> None:
        path = written(tmp_path, "in\tO\nRome\tB-loc\tQ220\nwith\tO\nus\tO\n", "train.tsv")
        with pytest.raises(CrossNERError, match=":2: found the tag 'Q220'") as caught:
            read(path)
        assert caught.value.hint.endswith("--columns word=1,tag=2")
        assert read(path, columns="word=1,tag=2").splits["train"][0].tags == ("O", "B-loc", "O", "O")
        with pytest.raises(CrossNERError, match="holds no sentence") as caught:
            read(path, skips_bad_lines=True)
        assert caught.value.hint == "Without --skip-bad-lines the first of them is explained."

    @pytest.mark.parametrize("rows", ["She _ O\nNew York _ B-loc\n", "New York _ B-loc\nShe _ O\n"])
    def test_words_with_spaces_stay_whole_where_spaces_set_columns_apart(self, tmp_path: Path, rows: str) -> None:
        path = written(tmp_path, f"{rows}ran _ O\n", "train.txt")
        for found in (read(path), read(path, columns="word=1,tag=3")):
            (sentence,) = found.splits["train"]
            assert ("New York", "B-loc") in zip(sentence.words, sentence.tags or (), strict=True)
            assert found.repairs.counts == {SPACED_WORD: 1}

    def test_comments_are_counted_and_words_that_begin_alike_stay(self, tmp_path: Path) -> None:
        content = "# id 5239 domain=en\n###MEDLINE:1\n\n#NASA B-org\nleft O\n# O\n"
        found = read(written(tmp_path, content, "train.txt"))
        assert found.splits["train"] == [Sentence(("#NASA", "left", "#"), ("B-org", "O", "O"))]
        assert found.repairs.counts == {COMMENT: 2}

    def test_rows_of_several_words_are_counted(self, tmp_path: Path) -> None:
        content = "# text = x\n1-2\tAnnas\t_\n1\tAnna\tB-per\n2\ts\tO\n2.1\tx\t_\n\n1\tYes\tO\n2\t.\tO\n"
        found = read(written(tmp_path, content, "train.conllu"))
        assert [sentence.words for sentence in found.splits["train"]] == [("Anna", "s"), ("Yes", ".")]
        assert found.repairs.counts == {COMMENT: 1, SURFACE_ROW: 2}

    def test_webanno_is_refused_with_the_export_to_choose(self, tmp_path: Path) -> None:
        with pytest.raises(CrossNERError, match="WebAnno TSV") as caught:
            read(written(tmp_path, "#FORMAT=WebAnno TSV 3.3\n#T_SP=x\n", "train.tsv"))
        assert "CoNLL 2002" in caught.value.hint

    def test_windows_text_is_read_after_its_way_out(self, tmp_path: Path) -> None:
        path = tmp_path / "train.txt"
        path.write_bytes("“ O\nAnna B-per\n– O\n€ O\n".encode("windows-1252"))
        with pytest.raises(CrossNERError, match="byte 0x93") as caught:
            read(path)
        assert "iconv -f WINDOWS-1252 -t UTF-8" in caught.value.hint
        path.write_text(path.read_bytes().decode("windows-1252"), encoding="utf-8")
        assert read(path).splits["train"][0].words == ("“", "Anna", "–", "€")


class TestHuggingFace:
    NAMES = ("O", "B-per", "I-per", "B-loc")
    ROW = {"tokens": list(WORDS), "ner_tags": [1, 2, 0, 0, 3, 0]}

    def features(self) -> dict[str, Any]:
        label = {"names": list(self.NAMES), "_type": "ClassLabel"}
        return {"tokens": {"feature": {"dtype": "string"}}, "ner_tags": {"feature": label, "_type": "Sequence"}}

    def test_numbers_are_named_by_the_schema_by_infos_or_by_the_card_and_never_guessed(self, tmp_path: Path) -> None:
        pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        table = pyarrow.Table.from_pylist([self.ROW])
        parquet.write_table(table, tmp_path / "train.parquet")
        lines = written(tmp_path, [self.ROW], "test.jsonl")
        for path in (tmp_path / "train.parquet", lines):
            with pytest.raises(CrossNERError, match="numbers whose names are not known") as caught:
                read(path)
            assert "dataset_infos.json" in caught.value.hint
        info = json.dumps({"info": {"features": self.features()}})
        parquet.write_table(table.replace_schema_metadata({"huggingface": info}), tmp_path / "train.parquet")
        assert read(tmp_path / "train.parquet").splits["train"] == GOLD
        (tmp_path / "dataset_infos.json").write_text(json.dumps({"default": {"features": self.features()}}))
        assert read(lines).splits["train"] == GOLD
        (tmp_path / "dataset_infos.json").unlink()
        names = "".join(f"            '{number}': {name}\n" for number, name in enumerate(self.NAMES))
        (tmp_path / "README.md").write_text(
            "---\ndataset_info:\n  features:\n  - name: ner_tags\n    sequence:\n      class_label:\n        names:\n"
            f"{names}---\n# Data\n"
        )
        assert read(lines).splits["train"] == GOLD

    def test_a_data_set_of_the_hub_is_fetched_without_scripts_and_its_shards_are_read_together(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        tokens = next(key for key, value in self.ROW.items() if value == list(WORDS))
        info = json.dumps({"info": {"features": self.features()}})
        (tmp_path / "data").mkdir()
        for number in range(2):
            shard = tmp_path / "data" / f"train-{number:05}-of-00002.parquet"
            table = pyarrow.Table.from_pylist([{**self.ROW, tokens: [*WORDS[:-1], "!" * (number + 1)]}])
            parquet.write_table(table.replace_schema_metadata({"huggingface": info}), shard)
        asked: dict[str, Any] = {}

        def snapshot(name: str, **options: Any) -> str:
            asked.update(options, name=name)
            return str(tmp_path)

        monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot)
        found = find_domain("hf://datasets/someone/ner-data@v2")
        assert (asked["name"], asked["revision"], asked["repo_type"]) == ("someone/ner-data", "v2", "dataset")
        assert not any(pattern.endswith(".py") for pattern in asked["allow_patterns"])
        assert found.name == "ner-data"
        first, second = read_domain(found.files).splits["train"]
        assert (first.words[-1], second.words[-1], first.tags) == ("!", "!!", GOLD[0].tags)
        for address in ("hf://datasets/someone", "hf://datasets/../x/y", "hf://datasets/a/b/../c"):
            with pytest.raises(CrossNERError, match="is not the address of a data set on the hub"):
                find_domain(address)


def test_brat_is_read_with_pieces_of_one_entity_and_counts_what_it_leaves_out(tmp_path: Path) -> None:
    (tmp_path / "1.txt").write_text("Anna\nBeck lives in Rome.")
    lines = ["T1\tper 0 4;5 9\tAnna Beck", "T2\tloc 19 23\tRome", "R1\tin Arg1:T1 Arg2:T2", "T3\tx 0 4;15 17\tAnna in"]
    (tmp_path / "1.ann").write_text("\n".join(lines) + "\n")
    (tmp_path / "2.txt").write_text("Nobody labelled this.")
    found = read_domain(find_domain(str(tmp_path)).files)
    assert found.splits["train"] == GOLD
    assert found.repairs.counts == {brat.UNLABELLED: 1, brat.OTHER_ANNOTATION: 1, brat.APART: 1}


def test_a_text_of_brat_with_a_bad_line_is_refused_or_left_out_whole(tmp_path: Path) -> None:
    for number, end in ((1, "9" * 5_000), (2, "9")):
        (tmp_path / f"{number}.txt").write_text(TEXT)
        (tmp_path / f"{number}.ann").write_text(f"T1\tper 0 {end}\tAnna Beck\nT2\tloc 19 23\tRome\n")
    files = find_domain(str(tmp_path)).files
    with pytest.raises(CrossNERError, match=r"1\.ann:1: found 'T1"):
        read_domain(files)
    assert read_domain(files, skips_bad_lines=True).splits["train"] == GOLD


def test_entities_of_a_doc_bin_without_ents_are_its_spans(tmp_path: Path) -> None:
    spacy, tokens = pytest.importorskip("spacy"), pytest.importorskip("spacy.tokens")
    made = spacy.blank("en")
    docs = [made(TEXT), made("Yes.")]
    docs[0].spans["sc"] = [docs[0].char_span(*place, label=kind) for *place, kind in [*SPANS, [0, 4, "x"]]]
    docs[1].spans["sc"] = []
    path = tmp_path / "train.spacy"
    tokens.DocBin(docs=docs).to_disk(path)
    found = read(path)
    assert found.splits["train"] == [*GOLD, Sentence(("Yes", "."), ("O", "O"))]
    assert found.repairs.counts == {OVERLAPPING_ENTITY: 1}
    assert found.repairs.notes[0].endswith("no doc.ents; the entities are those of doc.spans, sc")
    docs[0].set_ents([docs[0].char_span(19, 23, label="loc")])
    tokens.DocBin(docs=docs).to_disk(path)
    assert read(path).types == ("loc",)


LINES = f"{ {'text': TEXT, 'label': SPANS} }\n" * 2
PYTHON = f"[('{TEXT}', {{'entities': [(0, 9, 'per'), (19, 23, 'loc')]}}), ]"


@pytest.mark.parametrize("content", [PYTHON, f"TRAIN_DATA = {PYTHON}\n", PYTHON.replace("'", '"'), LINES])
@pytest.mark.parametrize("name", ["train.txt", "train.json"])
def test_python_is_refused_with_the_line_that_converts_it(tmp_path: Path, name: str, content: str) -> None:
    path = written(tmp_path, content, name)
    with pytest.raises(CrossNERError, match="is Python, which is not read") as caught:
        read(path)
    command = caught.value.hint.removeprefix("Convert it: ").replace("NAME", str(tmp_path / "converted"))
    subprocess.run(command, shell=True, check=True)
    assert read(tmp_path / "converted.jsonl").splits["train"] == GOLD * (2 if content == LINES else 1)


@pytest.mark.parametrize(
    ("content", "held"),
    [
        ('{"documents": [{"content": "Anna", "marks": []}], "version": 2}', "'documents, version'"),
        ('[{"sentence": "Anna"}, {"marks": []}]', "'sentence, marks'"),
        ('{"text": "Anna"}\n', "'text'"),
        ('[["a", "b"], ["c"]]', "['a', 'b']"),
    ],
)
def test_json_of_another_tool_is_refused_with_its_keys_and_what_is_read(tmp_path, content: str, held: str) -> None:
    with pytest.raises(CrossNERError) as caught:
        read(written(tmp_path, content, "train.json"))
    assert caught.value.problem.endswith(f"It holds: {held}.")
    assert all(each.title in caught.value.hint for each in FORMATS.values() if each.reads)


def test_types_that_differ_only_in_what_does_not_show_are_a_warning(tmp_path: Path) -> None:
    (warning,) = read(written(tmp_path, "a B-per\nc B-loc\nd B-loc\u200b\n", "train.txt")).repairs.warnings
    assert warning.startswith("Entity types that look alike: 'loc', 'loc\\u200b'.")


def test_texts_without_entities_stand_among_those_with_strings_wherever_they_are(tmp_path: Path) -> None:
    full = json.loads(FILES["strings"][1])
    none = {"text": "Yes.", "entities": []}
    for lines in ([none, full], [full, none, none]):
        found = read(written(tmp_path, lines))
        assert [each for each in found.splits["train"] if "B-per" in each.tags] == GOLD
        assert len(found.splits["train"]) == len(lines)


@pytest.mark.parametrize(
    ("file", "content", "problem", "way_out"),
    [
        ("train.csv", b"text,entity\n", "is CSV", "Write columns or JSONL"),
        ("train.xml", b'\n<?xml version="1.0"?>\n<a>Anna</a>\n', "is XML", "brat's format"),
        ("train.txt", b"<!DOCTYPE html><p>Anna</p>\n", "is XML or HTML", "JSONL"),
        (
            "train.txt",
            "Anna B-per\n".encode("utf-16-le"),
            "zero bytes, as text in UTF-16",
            "iconv -f UTF-16LE -t UTF-8",
        ),
        ("train.txt", b"Grandma rolls the dough with a fork.\n", "found the tag 'fork.'", "crossner label"),
        ("train.txt", b"Anna 1\n", "found the tag '1'", "Numbers have no names"),
    ],
)
def test_what_is_no_labelled_file_is_refused_with_a_way_out(tmp_path, file, content, problem, way_out) -> None:
    path = tmp_path / file
    path.write_bytes(content)
    with pytest.raises(CrossNERError) as caught:
        read(path)
    assert problem in caught.value.problem and way_out in caught.value.hint


def test_text_in_utf_16_is_read_after_its_way_out(tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    path.write_bytes(FILES["conll"][1].encode("utf-16-le"))
    path.write_text(path.read_bytes().decode("utf-16-le"), encoding="utf-8")
    assert read(path).splits["train"] == GOLD


def test_a_wrong_format_is_answered_with_the_one_that_the_file_looks_like(tmp_path: Path) -> None:
    file, content = FILES["label-studio"]
    with pytest.raises(CrossNERError) as caught:
        read(written(tmp_path, content, file), labels_format="doccano")
    assert caught.value.hint == "It looks like Label Studio JSON: leave --labels-format out, or give label-studio."


@pytest.mark.parametrize("name", [name for name in FILES if name not in ("conll", "jsonl")])
def test_ten_thousand_texts_of_any_format_take_seconds(tmp_path: Path, name: str) -> None:
    file, content = FILES[name]
    if file.endswith(".json"):
        content = json.dumps(json.loads(content) * 10_000)
    else:
        content = (content.rstrip("\n") + "\n") * 10_000
    with within(10):
        assert len(read(written(tmp_path, content, file)).splits["train"]) == 10_000


def test_json_that_is_broken_is_refused_with_the_line(tmp_path: Path) -> None:
    with pytest.raises(CrossNERError, match=r"train.json:2: it is not JSON"):
        read(written(tmp_path, '[\n  {"a": 1,}\n]', "train.json"))
    assert not Repairs().notes
