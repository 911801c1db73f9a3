"""A server on this machine that speaks as OpenAI's chat completions do, and fails as it is told."""

import contextlib
import json
import math
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

NAMES = {"Anna": "person", "Peter": "person", "Paris": "place", "Berlin": "place"}


def mark(text: str) -> str:
    """The right answer: the names in a text with their tags."""
    return re.sub("|".join(NAMES), lambda match: f"<{NAMES[match[0]]}>{match[0]}</{NAMES[match[0]]}>", text)


@dataclass
class ChatServer:
    """The server. A fault is used up by the first request for a text that contains its key.

    Args:
        url: Its address.
        answer: What the model says to a text.
        faults: Faults of requests for texts that contain the key, in order: a status, or ``slow``, ``cut``,
            ``malformed`` or ``page``, or a function that answers itself.
        certainty: The lowest probability of a token, by the text; None: probabilities are refused.
        refused: Names of what a request must not hold.
        usage: The tokens that it says were used.
        requests: The bodies of all requests.
        keys: The keys that were sent.
    """

    url: str = ""
    answer: Callable[[str], str] = mark
    faults: dict[str, list[Any]] = field(default_factory=dict)
    certainty: Callable[[str], float] | None = lambda text: 0.9
    refused: set[str] = field(default_factory=set)
    usage: Any = field(default_factory=lambda: {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110})
    requests: list[Mapping[str, Any]] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)

    def asked(self) -> list[str]:
        """The last message of each request."""
        return [body["messages"][-1]["content"] for body in self.requests]

    def take_fault(self, text: str) -> Any:
        return next((faults.pop(0) for key, faults in self.faults.items() if key in text and faults), None)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    chat: ChatServer

    def log_message(self, *_: Any) -> None:
        """Write nothing."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        chat = self.chat
        chat.requests.append(body)
        chat.keys.add(self.headers["Authorization"].removeprefix("Bearer "))
        text = body["messages"][-1]["content"]
        fault = chat.take_fault(text)
        if self.path != "/v1/chat/completions":
            return self.send(404, {"error": {"message": "no such path"}})
        if callable(fault):
            self.close_connection = True
            with contextlib.suppress(OSError):
                fault(self)
            return None
        if isinstance(fault, int):
            return self.send(fault, {"error": {"message": f"\x1b[31mfault\x1b[0m {self.headers['Authorization']}"}})
        for name in chat.refused & body.keys():
            return self.send(400, {"error": {"message": f"Unsupported value: '{name}'.", "param": name}})
        if body.get("logprobs") and chat.certainty is None:
            return self.send(400, {"error": {"message": "logprobs are not supported"}})
        if fault == "slow":
            time.sleep(1.5)
        content = chat.answer(text)
        choice: dict[str, Any] = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant"}}
        choice["message"]["content"] = content
        if body.get("logprobs") and chat.certainty is not None:
            tokens = [{"token": "a", "logprob": math.log(value)} for value in (0.99, chat.certainty(text))]
            choice["logprobs"] = {"content": tokens}
        answer = {"id": "1", "object": "chat.completion", "created": 1, "model": body["model"], "choices": [choice]}
        return self.send(200, {**answer, "usage": chat.usage}, fault)

    def begin(self, status: int, **headers: str) -> None:
        """Send the head of an answer."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def send(self, status: int, answer: dict[str, Any], fault: Any = None) -> None:
        data = json.dumps(answer).encode()
        sent = {"cut": data[:40], "malformed": data[:40], "page": b"<html>"}.get(fault, data)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.send_response(status)
            self.send_header("Content-Type", "text/html" if fault == "page" else "application/json")
            self.send_header("Content-Length", str(len(data if fault == "cut" else sent)))
            self.send_header("retry-after-ms", "1")
            self.end_headers()
            self.wfile.write(sent)
        self.close_connection = fault == "cut"


class QuietServer(ThreadingHTTPServer):
    def handle_error(self, *_: Any) -> None:
        """Write nothing of clients that go away."""


@contextlib.contextmanager
def serve() -> Iterator[ChatServer]:
    """Run a server on a free port."""
    chat = ChatServer()
    server = QuietServer(("127.0.0.1", 0), type("Bound", (Handler,), {"chat": chat}))
    chat.url = f"http://127.0.0.1:{server.server_port}/v1"
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield chat
    finally:
        server.shutdown()
        server.server_close()
