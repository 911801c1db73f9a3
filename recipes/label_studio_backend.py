"""Label Studio's machine-learning backend: it tags the tasks that Label Studio sends.

Start it with: python recipes/label_studio_backend.py finetune
"""

from __future__ import annotations

import argparse
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from crossner_cli.data.documents import Document
from crossner_cli.data.formats.label_studio import LabelStudioWriter, to_prediction
from crossner_cli.data.text import segment
from crossner_cli.engine.devices import Engine, start_engine
from crossner_cli.errors import CrossNERError
from crossner_cli.options import Predict
from crossner_cli.prediction.tagging import ChunkTagger, PredictionJob
from crossner_cli.run.directory import RunDirectory
from crossner_cli.taggers.sources import best_on_dev, find_taggers
from crossner_cli.taggers.tagging import read_calibration

LARGEST = 16_000_000  # bytes of a request
SECONDS = 30.0  # to wait for more of a request


def make_server(model: str, engine: Engine, address: tuple[str, int]) -> ThreadingHTTPServer:
    """Load a tagger, and listen at a host and port; port 0 is a free one."""
    trained = best_on_dev(find_taggers(RunDirectory(Path("run")), [model], wanted_by="predict"))
    tagging = PredictionJob([trained], LabelStudioWriter(), calibration=read_calibration(trained.folder))
    tagger, lock = ChunkTagger(tagging, engine), threading.Lock()

    def predict(request: dict[str, Any]) -> dict[str, Any]:
        from_name, to_name, key = names_in(request.get("label_config"))
        texts = [str(task["data"][key]) for task in request["tasks"]]
        documents = [Document(text, segment(text)) for text in texts]
        with lock:
            tagged = tagger.tag(documents)
        return {"results": [to_prediction(each, model, from_name=from_name, to_name=to_name) for each in tagged]}

    class Handler(BaseHTTPRequestHandler):
        timeout = SECONDS

        def do_GET(self) -> None:
            self.answer(200 if self.path == "/health" else 404, {"status": "UP", "model_class": "crossner"})

        def do_POST(self) -> None:
            try:
                size = int(self.headers.get("Content-Length", 0))
                if not 0 <= size <= LARGEST:
                    return self.answer(413, {"error": f"A request has at most {LARGEST} bytes, and this one {size}."})
                request = json.loads(self.rfile.read(size))
                if self.path == "/setup":
                    self.answer(200, {"model_version": model})
                elif self.path == "/predict":
                    self.answer(200, predict(request))
                else:
                    self.answer(404, {"error": f"There is no {self.path}."})
            except (AttributeError, KeyError, RecursionError, TypeError, ValueError, ElementTree.ParseError) as error:
                self.answer(400, {"error": f"The request cannot be read: {error!r}."})

        def answer(self, status: int, record: dict[str, Any]) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(record).encode())

    return ThreadingHTTPServer(address, Handler)


def names_in(setup: str | None) -> tuple[str, str, str]:
    """Return the names of ``Labels`` and of its ``Text`` in a labelling setup, and the key of the text in a task."""
    if not setup:
        return "label", "text", "text"
    root = ElementTree.fromstring(setup)
    for labels in root.iter("Labels"):
        for text in root.iter("Text"):
            if text.get("name") == labels.get("toName"):
                return labels.attrib["name"], text.attrib["name"], text.attrib["value"].removeprefix("$")
    raise ValueError("label_config has no Labels of a Text")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Serve a tagger to Label Studio.")
    parser.add_argument("model", help="a stage of run/, or the path of a stage or tagger folder")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: this machine alone)")
    parser.add_argument("--port", type=int, default=9090)
    given = parser.parse_args()
    try:
        server = make_server(given.model, start_engine(Predict()), (given.host, given.port))
    except (CrossNERError, OSError) as error:
        parser.exit(1, f"{error}\n")
    print(f"Label Studio finds the tagger at http://{given.host}:{server.server_port}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()
