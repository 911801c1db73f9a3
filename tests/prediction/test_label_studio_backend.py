"""The recipe that serves a tagger to Label Studio, asked over HTTP as Label Studio asks."""

import json
import runpy
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
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
    make_server = runpy.run_path(str(BACKEND))["make_server"]
    make_server.__globals__["SECONDS"] = 0.5
    server = make_server(str(folder), engine, ("127.0.0.1", 0))
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


def send(address: str, size: str, body: bytes = b"") -> socket.socket:
    """Send the head of a request and what there is of its body."""
    host, port = address.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)), timeout=5)
    connection.sendall(f"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n".encode() + body)
    return connection


def test_a_client_that_sends_half_a_request_stops_no_other_and_is_dropped(address: str) -> None:
    began = time.monotonic()
    with send(address, "100", b'{"tasks": [') as half:
        assert ask(f"{address}/predict", {"tasks": [{"data": {"text": TEXT}}]})["results"]
        assert half.recv(1000) == b"" and time.monotonic() - began < 5


@pytest.mark.parametrize("size", ["200000000", "-1"])
def test_a_request_of_too_many_bytes_is_not_read(address: str, size: str) -> None:
    with send(address, size) as connection:
        assert connection.recv(1000).startswith(b"HTTP/1.0 413 ")


def test_a_request_that_is_nested_deep_is_answered(address: str) -> None:
    with send(address, "20000", b"[" * 20000) as connection:
        assert connection.recv(1000).startswith(b"HTTP/1.0 400 ")


def test_clients_at_once_get_what_one_gets(address: str) -> None:
    tasks = [{"tasks": [{"data": {"text": f"{TEXT} {'Berlin ' * number}."}}]} for number in range(16)]
    alone = [ask(f"{address}/predict", task) for task in tasks]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda task: ask(f"{address}/predict", task), tasks)) == alone
