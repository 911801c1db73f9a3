"""The recipe that serves a tagger to Label Studio, asked over HTTP as Label Studio asks."""

from __future__ import annotations

import json
import runpy
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from crossner_cli.engine.devices import Engine

Predicted = Callable[..., tuple[dict[str, Any], list[str]]]
TEXT = "Anna 👍🏽 met Peter in London and Paris"
BACKEND = Path(__file__).parents[2] / "recipes" / "label_studio_backend.py"
SETUP = """<View><Labels name="ner" toName="body"><Label value="person"/></Labels>
<Text name="other" value="$title"/><Text name="body" value="$content"/></View>"""


@pytest.fixture
def address(folder: Path, engine: Engine) -> Any:
    """The backend at a free port of this machine."""
    server = runpy.run_path(str(BACKEND))["make_server"](str(folder), engine, ("127.0.0.1", 0))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def ask(address: str, record: Any = None) -> Any:
    data = None if record is None else json.dumps(record).encode()
    with urllib.request.urlopen(urllib.request.Request(address, data)) as answer:
        return json.load(answer)


def test_a_tagger_serves_label_studio(address: str, folder: Path, predicted: Predicted) -> None:
    assert ask(f"{address}/health")["status"] == "UP"
    assert ask(f"{address}/setup", {"project": "1", "schema": SETUP}) == {"model_version": str(folder)}
    (task,) = json.loads("".join(predicted(TEXT.encode(), format="label-studio")[1]))
    assert ask(f"{address}/predict", {"tasks": [task]}) == {"results": task["predictions"]}
    other = {"id": 5, "data": {"title": "x", "content": TEXT}}
    (result,) = ask(f"{address}/predict", {"tasks": [other], "label_config": SETUP})["results"]
    assert {(region["from_name"], region["to_name"]) for region in result["result"]} == {("ner", "body")}
    for wrong in ({"tasks": [{}]}, [], *({"tasks": [task], "label_config": setup} for setup in ("<View/>", "<"))):
        with pytest.raises(urllib.error.HTTPError, match="400"):
            ask(f"{address}/predict", wrong)
    with pytest.raises(urllib.error.HTTPError, match="404"):
        ask(f"{address}/train", {})
