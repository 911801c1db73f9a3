"""Questions to a language model behind an interface like OpenAI's: in parallel, with retries, each answer kept."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
import json
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from crossner_cli.data.files import is_writable
from crossner_cli.errors import CrossNERError
from crossner_cli.labelling.prompt import Message
from crossner_cli.run.environment import import_optional
from crossner_cli.run.progress import Progress, Work
from crossner_cli.run.storage import write_json

OPENAI_URL, KEY = "https://api.openai.com/v1", "OPENAI_API_KEY"
RETRIES = 5  # after 429, 5xx, a timeout or a lost connection, with growing pauses
READINGS = 2  # times that a question is asked if the response is not an answer of a model
REFUSED, UNREADABLE = "as refused by the server", "as answers that cannot be read"
LONGEST_REASON = 300
TOKENS = ("prompt_tokens", "completion_tokens")
HIDDEN, NO_CREDIT = "[key]", "insufficient_quota"
GOES_ON = "Answers that came are kept: the same command continues from there."


@dataclass(frozen=True)
class Answer:
    """The answer of a model; ``certainty`` is the lowest probability of its tokens, None where they are not known."""

    text: str
    certainty: float | None
    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True)
class Failure:
    """The reason why a question has no answer: ``REFUSED`` or ``UNREADABLE``, and what the server said."""

    kind: str
    reason: str


def check_server(base_url: str | None) -> tuple[str, str]:
    """Return the address of the interface and the key, before anything heavy is loaded.

    Raises:
        CrossNERError: The client is not installed, there is no key, or the address is invalid or holds secrets.
    """
    import_optional("openai", "Language models are asked with the package openai", extra="openai")
    url = (base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL).rstrip("/")
    with contextlib.suppress(ValueError):
        parts = urlsplit(url)
        if parts.username or parts.password or parts.query:
            raise CrossNERError(
                "--base-url holds a name, a password or a query, and it is written into manifests.",
                hint=f"Give the address alone, and the key in the environment variable {KEY}.",
            )
        if parts.scheme in ("http", "https") and parts.hostname:
            key = os.environ.get(KEY, "").strip()
            if key:
                return url, key
            raise CrossNERError(
                f"There is no key for {url}: the environment variable {KEY} is not set.",
                hint=f"export {KEY}=…; any text will do for a server that needs no key.",
            )
    raise CrossNERError(
        f"--base-url {url} is not an address.", hint="Give one such as http://localhost:8000/v1; it mostly ends in /v1."
    )


class LanguageModel:
    """A language model that answers each question once: answers are kept in a folder.

    Args:
        base_url: The address of the interface, as ``check_server`` returns it.
        key: The key, which is never written.
        cache: The folder of the answers.
        timeout: Seconds to wait for a whole answer.
        max_requests: Requests in all, repeated ones not counted; None: no limit.

    Attributes:
        requests: The requests made.
        used: The answers used, new and kept, by their key.
        failures: The reasons why requests have no answer.
        wishes: Further parameters of a request; a server may refuse some.
    """

    def __init__(
        self,
        name: str,
        base_url: str,
        key: str,
        cache: Path,
        *,
        parallel: int,
        timeout: float,
        max_requests: int | None = None,
    ) -> None:
        import openai

        self.name, self.base_url, self.cache, self.parallel, self.timeout = name, base_url, cache, parallel, timeout
        self.requests = 0
        self.used: dict[str, Answer] = {}
        self.failures: list[str] = []
        self.wishes: dict[str, Any] = {"temperature": 0, "logprobs": True}
        self._most = math.inf if max_requests is None else max_requests
        self._key, self._openai = key, openai

    def answer_all(self, questions: Sequence[list[Message]], task: str) -> Work[list[Answer | Failure | None]]:
        """Answer questions, in their order; None for those that were not asked because of ``max_requests``.

        If this is left early, pending answers are waited for, up to ``timeout`` seconds, and kept.

        Raises:
            CrossNERError: The server cannot be reached, or does not know the key or the model.
        """
        from crossner_cli.labelling.bounded_client import BoundedClient  # installed with the package openai

        self.cache.mkdir(parents=True, exist_ok=True)
        found: list[Answer | Failure | None] = [self._read_kept(question) for question in questions]
        missing = iter([number for number, answer in enumerate(found) if answer is None])
        done, before = sum(answer is not None for answer in found), self.requests
        waiting: dict[asyncio.Task[Answer | Failure], int] = {}
        with asyncio.Runner() as runner:
            client = self._openai.AsyncOpenAI(
                api_key=self._key, base_url=self.base_url, max_retries=RETRIES, http_client=BoundedClient(self.timeout)
            )
            try:
                while True:
                    while len(waiting) < self.parallel and self.requests < self._most:
                        if (number := next(missing, None)) is None:
                            break
                        self.requests += 1
                        waiting[runner.get_loop().create_task(self._ask(client, questions[number]))] = number
                    yield Progress(task, done, len(questions), "sentences", {"requests": self.requests - before})
                    if not waiting:
                        return found
                    for ended in runner.run(asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED))[0]:
                        found[waiting.pop(ended)] = answer = ended.result()
                        self.failures += [answer.reason] if isinstance(answer, Failure) else []
                        done += 1
            finally:
                runner.run(self._close(client, waiting))

    def count_tokens(self) -> dict[str, int]:
        """Count the tokens of all answers used, as the server counted them."""
        return {name: sum(getattr(answer, name) for answer in self.used.values()) for name in TOKENS}

    async def _close(self, client: Any, tasks: Iterable[asyncio.Task[Answer | Failure]]) -> None:
        """Wait for the pending answers, for a limited time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.timeout):
                await asyncio.gather(*tasks, return_exceptions=True)
        await client.close()

    def _digest(self, question: list[Message]) -> str:
        asked = json.dumps([self.name, self.base_url, question])
        return hashlib.sha256(asked.encode()).hexdigest()

    def _read_kept(self, question: list[Message]) -> Answer | None:
        """Read the answer that was kept; None without one or if it is damaged."""
        key = self._digest(question)
        with contextlib.suppress(OSError, ValueError, TypeError):
            record = json.loads((self.cache / f"{key}.json").read_text(encoding="utf-8"))
            self.used[key] = Answer(**record)
            return self.used[key]
        return None

    async def _ask(self, client: Any, question: list[Message]) -> Answer | Failure:
        """Ask one question, and keep its answer."""
        for _ in range(READINGS):
            try:
                answer = self._read(await self._request(client, question), question)
            except (self._openai.BadRequestError, self._openai.UnprocessableEntityError) as error:
                return Failure(REFUSED, self._reason(error))
            except (self._openai.APIStatusError, self._openai.APIConnectionError) as error:
                raise self._describe(error) from None
            except (self._openai.OpenAIError, ValueError, RecursionError):  # too large, not JSON, nested too deeply
                continue
            if answer is not None:
                key = self._digest(question)
                write_json(self.cache / f"{key}.json", dataclasses.asdict(answer))
                self.used[key] = answer
                return answer
        return Failure(UNREADABLE, "the response is not an answer of a chat model, or is too large.")

    async def _request(self, client: Any, question: list[Message]) -> Any:
        """Ask with all wishes, and again without those that the server refuses, which are remembered."""
        wishes = dict(self.wishes)
        while True:
            try:
                completion = await client.chat.completions.create(model=self.name, messages=question, **wishes)
            except (self._openai.BadRequestError, self._openai.UnprocessableEntityError) as error:
                refused = {name for name in wishes if name in error.message} or wishes.keys() & {"logprobs"}
                if not refused:
                    raise
                wishes = {name: value for name, value in wishes.items() if name not in refused}
            else:
                self.wishes = {name: value for name, value in self.wishes.items() if name in wishes}
                return completion

    def _read(self, completion: Any, question: list[Message]) -> Answer | None:
        """Read an answer from whatever the server sent; None if it is not an answer."""
        try:
            text = (completion.choices[0].message.content or "").rpartition("</think>")[2]
        except (AttributeError, IndexError, TypeError):
            return None
        if not isinstance(text, str) or not is_writable(text):
            return None
        certainty, counts = None, [0, 0]
        with contextlib.suppress(AttributeError, TypeError, ValueError, ArithmeticError):  # they are not needed
            counts = [max(0, min(int(getattr(completion.usage, name)), 10**9)) for name in TOKENS]
        with contextlib.suppress(AttributeError, TypeError, ValueError, ArithmeticError):
            least = math.exp(min(token.logprob for token in completion.choices[0].logprobs.content))
            certainty = least if least <= 1 else None
        if not any(self._key in message["content"] for message in question):
            text = text.replace(self._key, HIDDEN)  # a server may send back what it was sent
        return Answer(text, certainty, *counts)

    def _reason(self, error: Any) -> str:
        """Return what the server said, without the key."""
        body = error.body if isinstance(error.body, dict) else {}
        place = error.response.headers.get("location")
        text = f"it redirects to {place}" if place else str(body.get("message") or error.message)
        return f"{' '.join(text.replace(self._key, HIDDEN).split())[:LONGEST_REASON]} ({error.status_code})"

    def _describe(self, error: Any) -> CrossNERError:
        if isinstance(error, self._openai.APITimeoutError):
            return CrossNERError(
                f"{self.base_url} did not answer within {self.timeout:g} seconds, {RETRIES + 1} times.",
                hint=f"Give more time with --timeout, or ask less at once with --parallel. {GOES_ON}",
            )
        if isinstance(error, self._openai.APIConnectionError):
            return CrossNERError(
                f"{self.base_url} cannot be reached, or cuts its answers.", hint=f"Check --base-url. {GOES_ON}"
            )
        reason = self._reason(error)
        if error.status_code == 402 or NO_CREDIT in (error.code, error.type):
            return CrossNERError(f"The account at {self.base_url} has no credit: {reason}", hint=f"Add some. {GOES_ON}")
        if isinstance(error, self._openai.AuthenticationError | self._openai.PermissionDeniedError):
            return CrossNERError(
                f"{self.base_url} refuses the key: {reason}",
                hint=f"Set the environment variable {KEY} again. {GOES_ON}",
            )
        if isinstance(error, self._openai.NotFoundError) or error.response.has_redirect_location:
            return CrossNERError(
                f"{self.base_url} knows no model {self.name!r}, or is the wrong address: {reason}",
                hint=f"Check --teacher openai:MODEL and --base-url, which mostly ends in /v1. {GOES_ON}",
            )
        return CrossNERError(
            f"{self.base_url} does not answer: {reason}", hint=f"Try again later, or with fewer --parallel. {GOES_ON}"
        )
