"""``crossner label``: what teachers say of raw text becomes a data set, and nothing is asked twice."""

import gzip
import json
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from builders.chat_server import ChatServer, Handler, mark, serve
from builders.commands import QUICK, crossner, invoke, refused, told
from builders.starts import save_stage
from builders.taggers import make_tagger

from crossner_cli.data.labelled import read_domain
from crossner_cli.data.sentences import Sentence, read_sentences
from crossner_cli.data.tags import TagSet, illegal_positions
from crossner_cli.engine.devices import Engine
from crossner_cli.labelling import language_model
from crossner_cli.layers.crf import decode_words
from crossner_cli.methods.contract import TagRules
from crossner_cli.options_label import Label
from crossner_cli.run.directory import RunDirectory
from crossner_cli.run.progress import Progress, exhaust
from crossner_cli.stages.label import run as label
from crossner_cli.taggers.folder import load_tagger

KEY = "sk-very-secret"
TYPES = ("person", "place")
TRAIN = """met O
Anna B-person
. O

in O
Paris B-place
. O

nobody O
came O
. O
"""
DEV, TEST = "Peter B-person\nslept O\n. O\n", "Berlin B-place\nsleeps O\n. O\n"
TEXTS = [
    "Anna met Peter in Paris.",
    "They saw Berlin and Anna.",
    "Nothing was there.",
    "A long way to Paris, said Peter.",
]


@pytest.fixture(scope="module")
def run(tiny_encoder_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """A prepared run with a stage of two seeds, whose types stand in two orders."""
    folder = tmp_path_factory.mktemp("label")
    data = folder / "data"
    data.mkdir()
    for split, text in {"train": TRAIN, "dev": DEV, "test": TEST}.items():
        (data / f"{split}.txt").write_text(text)
    (folder / "corpus.txt").write_text("\n".join([*TEXTS, "Anna Peter Paris."]) + "\n")
    (folder / "names.tsv").write_text("Anna\tperson\nPeter\tperson\nParis\tplace\nBerlin\tplace\n")
    made = ["prepare-data", "--run", folder / "run", "--target", data, "--corpus", folder / "corpus.txt"]
    crossner(*made, "--entities", folder / "names.tsv", "--corpus-level", "domain", "--workers", "1")
    run = RunDirectory(folder / "run")
    sets = [TagSet({"data": TYPES}), TagSet({"data": TYPES[::-1], "news": ("thing",)})]
    taggers = {seed: make_tagger(tiny_encoder_folder, "linear", sets[seed - 1], seed=seed) for seed in (1, 2)}
    save_stage(run, "two-seeds", taggers, [50.0, 60.0])
    for method, types in (("crf", TYPES), ("laner", TYPES), ("linear", ("song",))):
        tagger = make_tagger(tiny_encoder_folder, method, TagSet({"data": types}))
        save_stage(run, f"{method}-{len(types)}", {1: tagger}, [50.0])
    bioes = make_tagger(tiny_encoder_folder, "linear", TagSet({"data": TYPES}, "bioes"))
    save_stage(run, "bioes", {1: bioes}, [50.0])
    return run


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("\n".join([*TEXTS, TEXTS[0], "Peter slept.", "The end. Berlin sleeps!"]) + "\n")
    return path


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with serve() as chat:
        yield chat


def arguments(run: RunDirectory, output: Path, *more: str | Path) -> list[str | Path]:
    return ["label", *more, "--output", output, "--run", run.path, *QUICK]


def words_of(output: Path) -> list[str]:
    return [" ".join(sentence.words) for sentence in read_sentences(output / "train.jsonl")]


@pytest.fixture
def ask(run: RunDirectory, texts: Path, server: ChatServer, tmp_path: Path) -> list[str | Path]:
    """The command that asks the server, in a run of its own."""
    own = RunDirectory(tmp_path / "run")
    own.path.mkdir()
    (own.path / "prepare-data").symlink_to(run.path / "prepare-data")
    return arguments(own, tmp_path / "silver", texts, "--teacher", "openai:m", "--base-url", server.url)


def test_only_sure_sentences_are_written_on_request(run: RunDirectory, texts: Path, tmp_path: Path) -> None:
    output = tmp_path / "silver"
    crossner(*arguments(run, output, texts, "--teacher", "crf-2", "--min-probability", "0"))
    every = list(read_sentences(output / "train.jsonl"))
    scores = [
        min(shares[tag] for tag, shares in zip(each.tags or (), each.soft or (), strict=True) if tag != "O")
        for each in every
    ]
    least = sorted(scores)[len(scores) // 2]
    told = crossner(*arguments(run, output, texts, "--teacher", "crf-2", "--min-probability", str(least), "--force"))
    kept = [each for each, score in zip(every, scores, strict=True) if score >= least]
    assert list(read_sentences(output / "train.jsonl")) == kept != every
    assert told["result"]["dropped"]["left out by --min-probability"] == told["result"]["read"]["sentences"] - len(
        kept
    ) - sum(number for reason, number in told["result"]["dropped"].items() if reason != "left out by --min-probability")
    command = arguments(run, output, texts, "--teacher", "crf-2", "--min-probability", "1", "--force")
    assert "is not sure of any" in refused(*command)


def test_two_seeds_label_by_the_mean_of_their_distributions(
    run: RunDirectory, texts: Path, engine: Engine, tmp_path: Path
) -> None:
    record = crossner(*arguments(run, tmp_path / "silver", texts, "--teacher", "two-seeds"))
    found = list(read_sentences(tmp_path / "silver" / "train.jsonl"))
    assert words_of(tmp_path / "silver") == [
        "Anna met Peter in Paris .",
        "They saw Berlin and Anna .",
        "Nothing was there .",
        "A long way to Paris , said Peter .",
        "The end .",
    ]
    assert record["result"]["dropped"] == {"repeated": 1, "as sentences of dev or test": 2}
    assert record["result"]["read"] == {"documents": 7, "sentences": 8}
    assert [(each["name"], each["seed"]) for each in record["result"]["teachers"]] == [
        ("two-seeds", 1),
        ("two-seeds", 2),
    ]
    tag_set = TagSet({"data": TYPES})
    for sentence in found:
        several = []
        for seed in (1, 2):
            tagger = load_tagger(run.folder("two-seeds") / f"tagger-seed-{seed}", engine)
            reader: Any = tagger.encoder.reader
            batch = reader.collate(reader.encode([Sentence(sentence.words, None, "data")]))
            with torch.no_grad():
                several.append(tagger.distributions(batch)[0][:, tagger.tag_set.to_ids(tag_set.tags)])
        mean = (several[0] + several[1]) / 2
        decoded = decode_words(mean.log()[None], torch.ones(1, len(mean), dtype=torch.bool), TagRules(tag_set).moves())
        assert sentence.tags == tuple(tag_set.from_ids(decoded.tags[0]))
        assert illegal_positions(sentence.tags or (), "bio") == []
        assert sentence.soft is not None
        for soft, values in zip(sentence.soft, mean.tolist(), strict=True):
            expected = {tag: value for tag, value in zip(tag_set.tags, values, strict=True) if value >= 0.005}
            assert soft == pytest.approx(expected, abs=1e-3)
            assert sum(soft.values()) == pytest.approx(1, abs=0.03)


def test_the_folder_is_a_data_set_and_its_manifest_lies_in_it(run: RunDirectory, texts: Path, tmp_path: Path) -> None:
    output = tmp_path / "silver"
    record = crossner(*arguments(run, output, texts, "--teacher", "two-seeds", "--teacher", "crf-2"))
    assert json.loads((output / "manifest.json").read_text()) == record
    assert {path.name for path in output.iterdir()} == {"train.jsonl", "manifest.json"}
    assert list(record["inputs"]) == ["input/0", "two-seeds", "crf-2"]
    domain = read_domain({"train": [output / "train.jsonl"]})
    assert len(domain.splits["train"]) == record["result"]["sentences"] == 5
    assert all(sentence.soft is not None for sentence in domain.splits["train"])
    step = record["result"]["next"]
    assert step.startswith(f"crossner prepare-data --source {output} --target ")
    assert crossner(*step.split()[1:])["result"]["domains"]["source"]["splits"]["train"]["sentences"] == 4


@pytest.mark.parametrize(
    ("teachers", "said"),
    [
        (["two-seeds", "linear-1"], "The taggers know different tags: two-seeds person, place in BIO, linear-1 song"),
        (["crf-2", "bioes"], "bioes person, place in BIOES"),
        (["laner-2"], "of the method laner, which does not give the probability of every tag. Way out: Methods that"),
        (["nobody"], "--teacher 'nobody' is neither a finished stage"),
        (["prepare-data"], "holds no tagger"),
        (["openai:m", "crf-2"], "A language model labels alone"),
        (["openai:"], "names no model"),
        ([], "label needs a teacher"),
    ],
)
def test_teachers_that_cannot_label_are_refused(
    run: RunDirectory, texts: Path, tmp_path: Path, teachers: list[str], said: str
) -> None:
    given = [part for each in teachers for part in ("--teacher", each)]
    assert said in refused(*arguments(run, tmp_path / "silver", texts, *given))
    assert not list(tmp_path.glob("*silver*"))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--shots", "3"], "--shots has no effect without a language model"),
        (["--select", "uncertain", "--sentences", "2"], "--select uncertain needs a tagger"),
        (["--select", "dense"], "has no effect without --sentences"),
        (["--select", "dense", "--sentences", "2"], "--select dense counts listed names, and none are given"),
        (["nowhere.txt"], "There is no file or folder nowhere.txt"),
        (["/dev/null"], "/dev/null is neither a plain file nor a folder"),
        (["--gpus", "0"], "--gpus 0"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    run: RunDirectory, texts: Path, tmp_path: Path, more: list[str], said: str
) -> None:
    assert said in refused(*arguments(run, tmp_path / "silver", texts, "--teacher", "crf-2", *more))


def test_an_output_is_replaced_only_with_force_and_only_if_this_command_made_it(
    run: RunDirectory, texts: Path, tmp_path: Path
) -> None:
    output = tmp_path / "silver"
    output.mkdir()
    (output / "mine.txt").write_text("mine")
    command = arguments(run, output, texts, "--teacher", "crf-2")
    assert "was not made by this command" in refused(*command, "--force")
    (output / "mine.txt").unlink()
    crossner(*command)
    assert "--force replaces it" in refused(*command)
    crossner(*command, "--force")
    stage = run.folder("crf-2")
    assert "in the run directory" in refused(*arguments(run, stage, texts, "--teacher", "crf-2", "--force"))
    elsewhere = arguments(RunDirectory(tmp_path / "other"), stage, texts, "--teacher", stage, "--force")
    assert "is a stage of a run" in refused(*elsewhere)


def test_without_input_the_prepared_corpus_is_labelled_densest_sentences_first(
    run: RunDirectory, tmp_path: Path
) -> None:
    dense = ["--teacher", "crf-2", "--select", "dense", "--sentences", "2"]
    record = crossner(*arguments(run, tmp_path / "silver", *dense))
    assert words_of(tmp_path / "silver") == ["Anna met Peter in Paris .", "Anna Peter Paris ."]
    assert record["result"]["dropped"] == {"not selected": 3}
    assert list(record["inputs"]) == ["prepare-data/corpus/domain.txt", "crf-2"]


def test_the_least_certain_sentences_of_a_first_tagger_of_any_method_are_selected(
    run: RunDirectory, texts: Path, tmp_path: Path
) -> None:
    select = [texts, "--teacher", "crf-2", "--select", "uncertain", "--sentences", "2", "--first", "laner-2"]
    record = crossner(*arguments(run, tmp_path / "silver", *select))
    scores = tmp_path / "scores.jsonl"
    one_a_line = tmp_path / "lines.txt"
    one_a_line.write_text("\n".join([*TEXTS, "The end."]))
    crossner(
        "predict", one_a_line, "--model", run.folder("laner-2"), "--order", "uncertain", "--output", scores, *QUICK
    )
    least = [" ".join(json.loads(line)["words"]) for line in scores.read_text().splitlines()[:2]]
    assert sorted(words_of(tmp_path / "silver")) == sorted(least)
    options = record["options"]
    assert (options["select"], options["sentences"], options["first"]) == ("uncertain", 2, "laner-2")


def test_a_language_model_labels_by_tags_in_the_text(ask: list[Any], server: ChatServer, tmp_path: Path) -> None:
    record = crossner(*ask)
    found = list(read_sentences(tmp_path / "silver" / "train.jsonl"))
    assert (found[0].tags, found[0].soft) == (("B-person", "O", "B-person", "O", "B-place", "O"), None)
    result = record["result"]
    assert result["entities"] == {"person": 4, "place": 3}
    assert result["requests"] == {"requests": 5, "answers": 5, "prompt_tokens": 500, "completion_tokens": 50}
    (teacher,) = result["teachers"]
    assert (teacher["name"], teacher["base_url"], teacher["shots"]) == ("openai:m", server.url, 3)
    system, *shots, _ = server.requests[0]["messages"]
    assert "<person>…</person>: person\n<place>…</place>: place" in system["content"]
    assert [shot["content"] for shot in shots[:2]] == ["met Anna .", "met <person>Anna</person> ."]
    # Requests are sent side by side: their order is open.
    assert sorted(server.asked()) == sorted([*TEXTS, "The end."])
    assert {body["temperature"] for body in server.requests} == {0} and server.keys == {KEY}


def test_shots_and_descriptions_are_chosen(ask: list[Any], server: ChatServer, tmp_path: Path) -> None:
    meanings = tmp_path / "meanings.tsv"
    meanings.write_text("person\tsomeone with a name\n")
    told_so = told(*ask, "--shots", "1", "--descriptions", meanings, "--sentences", "1")
    assert "someone with a name" in server.requests[0]["messages"][0]["content"]
    assert len(server.requests[0]["messages"]) == 4
    assert "label" in told_so
    record = json.loads((tmp_path / "silver" / "manifest.json").read_text())
    assert record["result"]["warnings"] == ["No sentence that is shown to the model has these types: place."]
    meanings.write_text("persn\tsomeone\n")
    assert "Did you mean 'person'?" in refused(*ask, "--descriptions", meanings, "--force")


def test_faults_of_the_server_are_overcome(ask: list[Any], server: ChatServer) -> None:
    server.faults = {
        "Anna met": [429],
        "They": [500],
        "Nothing": ["cut"],
        "way": ["malformed"],
        "end": ["slow", "page"],
    }
    record = crossner(*ask, "--timeout", "1")
    assert record["result"]["sentences"] == 5
    assert len(server.requests) == 11 and record["result"]["requests"]["requests"] == 5


def test_probabilities_are_not_needed(ask: list[Any], server: ChatServer) -> None:
    server.certainty = None
    assert "There is no second pass" in told(*ask, "--second-pass", "--parallel", "1")
    assert [bool(body.get("logprobs")) for body in server.requests] == [True, False, False, False, False, False]


def spend(handler: Handler) -> None:
    handler.send(429, {"error": {"message": "You exceeded your quota.", "code": "insufficient_quota"}})


def test_an_account_without_credit_is_asked_once(ask: list[Any], server: ChatServer, tmp_path: Path) -> None:
    server.faults = {"way": [spend], "They": [402]}
    for number in (2, 5):
        said = refused(*ask, "--parallel", "1")
        assert "has no credit: " in said and "Answers that came are kept" in said and len(server.requests) == number
    assert "You exceeded your quota. (429)" in said
    assert crossner(*ask)["result"]["sentences"] == 5 and len(set(server.asked())) == 5


def test_answers_of_no_use_are_counted_and_dropped(ask: list[Any], server: ChatServer) -> None:
    answers = {
        TEXTS[0]: "Anna met <person>Peter</person> in London.",
        TEXTS[1]: "They saw <city>Berlin</city>  and <person>An</person>na .",
        TEXTS[2]: "<person>Nothing was there.",
        TEXTS[3]: "A long way to <place>Paris, said <person>Peter</person></place>.",
    }
    server.answer = lambda text: answers.get(text, text)
    result = crossner(*ask)["result"]
    assert result["sentences"] == 3 and result["entities"] == {"person": 1, "place": 1}
    assert result["dropped"]["as answers that change the text"] == 1
    assert result["dropped"]["as answers with broken tags"] == 1
    assert result["repairs"] == {
        "entity of an unknown type dropped": 1,
        "entity that begins or ends inside a word given the whole word": 1,
        "tag inside another left out": 1,
    }


def test_odd_numbers_from_the_server_do_no_harm(ask: list[Any], server: ChatServer) -> None:
    server.usage = {"prompt_tokens": "many", "completion_tokens": -5}
    server.certainty = lambda text: 50.0
    result = crossner(*ask, "--second-pass")["result"]
    assert result["sentences"] == 5 and result["requests"]["prompt_tokens"] == 0
    server.certainty = lambda text: 0.5
    server.usage = {"prompt_tokens": 10**4000, "completion_tokens": 1}
    assert crossner(*ask, "--shots", "1", "--force")["result"]["requests"]["prompt_tokens"] < 10**10


def test_thoughts_before_an_answer_are_neither_read_nor_kept(
    ask: list[Any], server: ChatServer, tmp_path: Path
) -> None:
    server.answer = lambda text: f"<think>Is <person>Anna</person> in it: {text}</think>\n\n{mark(text)}"
    assert crossner(*ask)["result"]["entities"] == {"person": 4, "place": 3}
    assert not any("think" in path.read_text() for path in (tmp_path / "run" / "label-cache").iterdir())


def test_a_request_that_the_server_refuses_for_good_is_counted(ask: list[Any], server: ChatServer) -> None:
    server.faults = {"Berlin": [400, 400], "way": ["page", "page"]}
    result = crossner(*ask)["result"]
    dropped, (warning,) = result["dropped"], result["warnings"]
    assert warning.startswith("Not every request has an answer. The last failure: ") and KEY not in warning
    assert (dropped["as refused by the server"], dropped["as answers that cannot be read"]) == (1, 1)


def test_a_data_set_without_a_sentence_is_not_written(ask: list[Any], server: ChatServer, tmp_path: Path) -> None:
    server.answer = lambda text: "Of course! Here it is."
    said = refused(*ask, "--sentences", "2")
    assert "No usable answer among the first 2: '" in said and "' was answered with 'Of course! Here it is.'." in said
    server.faults = {"": [400, 400]}
    said = refused(*ask, "--sentences", "1", "--shots", "1")
    assert "No usable answer among the first 1:" in said and "Bearer [key] (400)" in said
    assert not (tmp_path / "silver").exists()


def test_after_twenty_answers_of_no_use_nothing_more_is_asked(
    ask: list[Any], server: ChatServer, texts: Path, tmp_path: Path
) -> None:
    texts.write_text("".join(f"Anna met number {number} in Paris.\n" for number in range(25)))
    server.answer = lambda text: "I cannot do that. " * 500
    said = refused(*ask, "--parallel", "50")
    assert "No usable answer among the first 20:" in said and len(server.requests) == 20
    assert "'Anna met number 0 in Paris.' was answered with 'I cannot do that. I cannot" in said and len(said) < 700
    assert "No usable answer among the first 20" in refused(*ask) and len(server.requests) == 20, "they are kept"
    server.answer = lambda text: mark(text) if "number 7 " in text else "no"
    assert crossner(*ask, "--shots", "1")["result"]["sentences"] == 1


def test_two_commands_of_one_output_do_not_work_at_once(
    ask: list[Any], server: ChatServer, texts: Path, engine: Engine, tmp_path: Path
) -> None:
    options = Label(input=[texts], teacher=["openai:m"], base_url=server.url, output=tmp_path / "silver")
    work = label(RunDirectory(tmp_path / "run"), options, engine)
    next(event for event in work if isinstance(event, Progress) and event.task == "label: first answers")
    said = refused(*ask, "--force")
    assert f"is at work on --output {tmp_path / 'silver'}. Way out: Wait for it, or name another" in said
    assert not server.requests, "nothing is asked twice"
    exhaust(work)
    assert len(words_of(tmp_path / "silver")) == 5 and not list(tmp_path.glob(".silver*"))
    assert "--force replaces it" in refused(*ask)


def test_the_least_certain_half_is_asked_again(ask: list[Any], server: ChatServer, tmp_path: Path) -> None:
    server.certainty = lambda text: 0.2 if "Berlin" in text else 0.3 if "way" in text else 0.4 if "end" in text else 0.9
    server.answer = lambda text: (
        "<person>The</person> end." if "answer again" in text else f"<think>Hm.</think>{mark(text)}"
    )
    result = crossner(*ask, "--second-pass", "--parallel", "1")["result"]
    again = [body["messages"] for body in server.requests[5:]]
    assert [messages[-3]["content"] for messages in again] == [TEXTS[1], TEXTS[3], "The end."]
    assert again[0][-2] == {"role": "assistant", "content": mark(TEXTS[1])}
    assert result["sentences"] == 5, "a second answer that alters the text does not replace the first"
    assert list(read_sentences(tmp_path / "silver" / "train.jsonl"))[-1].tags == ("B-person", "O", "O")


def test_a_command_that_stops_goes_on_without_asking_again(ask: list[Any], server: ChatServer, tmp_path: Path) -> None:
    record = crossner(*ask, "--max-requests", "2")
    assert record["result"]["dropped"]["not asked because of --max-requests"] == 3
    assert record["result"]["warnings"] == [
        "3 sentences are not asked because of --max-requests. The same command with --force continues; nothing is asked"
        " twice."
    ]
    server.faults = {"way": [401]}
    assert "refuses the key" in refused(*ask, "--force", "--parallel", "1")
    assert len(words_of(tmp_path / "silver")) == 2, "a command that fails leaves what was there"
    result = crossner(*ask, "--force")["result"]
    assert result["requests"] == {"requests": 2, "answers": 5, "prompt_tokens": 500, "completion_tokens": 50}
    assert len(server.requests) == 6 and len(set(server.asked())) == 5
    crossner(*ask, "--force", "--shots", "2")
    assert len(server.requests) == 11, "another prompt is another question"


def test_an_interrupted_command_keeps_its_answers(
    ask: list[Any], server: ChatServer, texts: Path, engine: Engine, tmp_path: Path
) -> None:
    output = tmp_path / "silver"
    options = Label(input=[texts], teacher=["openai:m"], base_url=server.url, output=output, parallel=1)
    work = label(RunDirectory(tmp_path / "run"), options, engine)
    for event in work:
        if isinstance(event, Progress) and event.task == "label: first answers" and event.done == 2:
            break
    work.close()
    assert not list(tmp_path.glob("*silver*"))
    before = len(server.requests)
    crossner(*ask)
    assert before == 3 and len(server.requests) == 5


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (401, "refuses the key"),
        (403, "refuses the key"),
        (404, "knows no model 'm'"),
        (429, "does not answer"),
        (503, "does not answer"),
        (400, "No usable answer among the first 5"),
        ("slow", "did not answer within 0.1 seconds"),
        ("cut", "cannot be reached, or cuts its answers"),
    ],
)
def test_a_server_that_gives_no_answer_is_reported(
    ask: list[Any], server: ChatServer, monkeypatch: pytest.MonkeyPatch, status: Any, said: str
) -> None:
    monkeypatch.setattr(language_model, "RETRIES", 0)
    server.faults = {"": [status] * 20}
    message = refused(*ask, "--timeout", "0.1" if status == "slow" else "5")
    assert said in message and KEY not in message and "\x1b" not in message


def drip(handler: Handler) -> None:
    handler.begin(200, Content_Type="application/json", Content_Length="1000")
    drip_bytes(handler)


def drip_head(handler: Handler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    drip_bytes(handler)


def drip_bytes(handler: Handler) -> None:
    for _ in range(1000):
        handler.wfile.write(b"{")
        time.sleep(0.03)


def never_end(handler: Handler) -> None:
    handler.begin(200, Content_Type="application/json")
    while True:
        handler.wfile.write(b"[" * 100_000)


def unpack_to_much(handler: Handler) -> None:
    body = gzip.compress(b" " * 50_000_000, 1)
    handler.begin(200, Content_Type="application/json", Content_Encoding="gzip", Content_Length=str(len(body)))
    handler.wfile.write(body)


def nest_deep(handler: Handler) -> None:
    handler.begin(200, Content_Type="application/json")
    handler.wfile.write(b'{"choices": ' + b"[" * 5000 + b"]" * 5000 + b"}")


@pytest.mark.parametrize("slow", [drip, drip_head])
def test_an_answer_that_comes_byte_by_byte_is_not_waited_for(
    ask: list[Any], server: ChatServer, monkeypatch: pytest.MonkeyPatch, slow: Any
) -> None:
    monkeypatch.setattr(language_model, "RETRIES", 1)
    server.faults = {"": [slow] * 20}
    began = time.monotonic()
    assert "did not answer within 0.2 seconds, 2 times" in refused(*ask, "--timeout", "0.2")
    assert time.monotonic() - began < 5


def test_an_interrupted_command_waits_for_answers_only_so_long(
    ask: list[Any], server: ChatServer, texts: Path, engine: Engine, tmp_path: Path
) -> None:
    output = tmp_path / "silver"
    options = Label(input=[texts], teacher=["openai:m"], base_url=server.url, output=output, timeout=0.2)
    server.faults = {"": [drip] * 20}
    work = label(RunDirectory(tmp_path / "run"), options, engine)
    next(event for event in work if isinstance(event, Progress) and event.task == "label: first answers")
    began = time.monotonic()
    work.close()
    assert time.monotonic() - began < 1


@pytest.mark.parametrize("fault", [never_end, unpack_to_much])
def test_an_answer_of_too_many_bytes_is_neither_read_nor_kept(
    ask: list[Any], server: ChatServer, tmp_path: Path, fault: Any
) -> None:
    server.faults = {"Berlin": [fault, fault]}
    result = crossner(*ask)["result"]
    assert result["sentences"] == 4 and result["dropped"]["as answers that cannot be read"] == 1
    assert "or is too large" in result["warnings"][0]
    kept = list((tmp_path / "run" / "label-cache").iterdir())
    assert len(kept) == 4 and all(path.stat().st_size < 1000 for path in kept)


def test_text_is_not_sent_on_to_another_address(ask: list[Any], server: ChatServer) -> None:
    with serve() as other:
        place = f"{other.url}/chat/completions"
        server.faults = {"": [lambda handler: handler.begin(307, Location=place, Content_Length="0")] * 20}
        assert f"is the wrong address: it redirects to {place} (307)" in refused(*ask)
        assert not other.requests


def test_an_answer_that_is_nested_deep_cannot_be_read(ask: list[Any], server: ChatServer) -> None:
    server.faults = {"Berlin": [nest_deep, nest_deep]}
    assert crossner(*ask)["result"]["dropped"]["as answers that cannot be read"] == 1


def test_the_key_is_written_nowhere(ask: list[Any], server: ChatServer, tmp_path: Path) -> None:
    server.answer = lambda text: f"{mark(text)} {KEY}" if "end" in text else mark(text)
    server.faults = {"way": [404]}
    shown = [invoke(*ask, "--verbose"), invoke(*ask, "--json"), invoke(*ask, "--force", "--verbose")]
    assert [each.exit_code for each in shown] == [1, 0, 0]
    assert not any(KEY in each.stdout + each.stderr for each in shown)
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) >= 8 and not any(KEY.encode() in path.read_bytes() for path in written)


@pytest.mark.parametrize(
    ("url", "key", "said"),
    [
        ("localhost:80", KEY, "is not an address"),
        ("http://", KEY, "is not an address"),
        ("http://user:word@localhost/v1", KEY, "holds a name, a password or a query"),
        ("http://localhost/v1?key=1", KEY, "holds a name, a password or a query"),
        ("http://localhost/v1", "", "OPENAI_API_KEY is not set"),
    ],
)
def test_addresses_and_keys_are_checked_first(
    ask: list[Any], monkeypatch: pytest.MonkeyPatch, url: str, key: str, said: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    place = ask.index("--base-url")
    assert said in refused(*ask[: place + 1], url, *ask[place + 2 :])


def test_without_the_client_the_way_out_is_to_install_it(ask: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    assert re.search(r"pip install .crossner\[openai\]", refused(*ask))
