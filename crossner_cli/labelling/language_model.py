"""Questions to a language model behind an interface like OpenAI's: in parallel, asked again, each answer kept."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import math
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
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
RETRIES = 5  # after 429, 5xx, a timeout or a lost connection, ever longer apart
REFUSED, UNREADABLE = "as refused by the server", "as answers that cannot be read"
LONGEST_REASON = 300
TOKENS = ("prompt_tokens", "completion_tokens")
HIDDEN, NO_CREDIT = "[key]", "insufficient_quota"
GOES_ON = "Answers that came are kept: the same command goes on from there."


@dataclass(frozen=True)
class Answer:
    """The answer of a model; ``certainty`` is the lowest probability of its tokens, None where they are not told."""

    text: str
    certainty: float | None
    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True)
class Failure:
    """Why a question has no answer: ``REFUSED`` or ``UNREADABLE``, and what the server said."""

    kind: str
    reason: str


def check_server(base_url: str | None) -> tuple[str, str]:
    """Return the address of the interface and the key, before anything heavy is loaded.

    Raises:
        CrossNERError: The client is not installed, there is no key, or the address is none or holds secrets.
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
                hint=f"export {KEY}=…; any text will do for a server that wants no key.",
            )
    raise CrossNERError(
        f"--base-url {url} is no address.", hint="Give one such as http://localhost:8000/v1; it mostly ends in /v1."
    )


class LanguageModel:
    """A language model that answers questions, each but once: answers are kept in a folder.

    Args:
        name: The model.
        base_url: The address of the interface, as ``check_server`` returns it.
        key: The key, which is written nowhere.
        cache: The folder of the answers.
        parallel: Requests at once.
        timeout: Seconds to wait for an answer.
        max_requests: Requests in all, repeated ones not counted; None: as many as it takes.

    Attributes:
        requests: The requests made.
        used: The answers used, new and kept, by their key.
        failures: Why requests have no answer.
        wishes: What is asked for beside an answer; a server may refuse some.
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
        self._most = max_requests
        self._key, self._openai = key, openai
        # A text is not sent on to another address.
        to = openai.DefaultHttpxClient(follow_redirects=False)
        self._client: Any = openai.OpenAI(
            api_key=key, base_url=base_url, timeout=timeout, max_retries=RETRIES, http_client=to
        )

    def answer_all(self, questions: Sequence[list[Message]], task: str) -> Work[list[Answer | Failure | None]]:
        """Answer questions, in their order; None for those that were not asked because of ``max_requests``.

        If this is left early, answers under way are waited for and kept.

        Raises:
            CrossNERError: The server cannot be reached, or does not know the key or the model.
        """
        self.cache.mkdir(parents=True, exist_ok=True)
        found: list[Answer | Failure | None] = [self._read_kept(question) for question in questions]
        missing = [number for number, answer in enumerate(found) if answer is None]
        done, before = len(found) - len(missing), self.requests
        missing = missing[: None if self._most is None else self._most - before]
        yield Progress(task, done, len(questions), "sentences", {"requests": 0})
        pool = ThreadPoolExecutor(self.parallel)
        try:
            asked = {pool.submit(self._ask, questions[number]): number for number in missing}
            for number, answer in ((asked[ended], ended.result()) for ended in as_completed(asked)):
                found[number] = answer
                self.requests += 1
                self.failures += [answer.reason] if isinstance(answer, Failure) else []
                done += 1
                yield Progress(task, done, len(questions), "sentences", {"requests": self.requests - before})
        finally:
            pool.shutdown(cancel_futures=True)
        return found

    def count_tokens(self) -> dict[str, int]:
        """Count the tokens of all answers used, as the server counted them."""
        return {name: sum(getattr(answer, name) for answer in self.used.values()) for name in TOKENS}

    def _digest(self, question: list[Message]) -> str:
        asked = json.dumps([self.name, self.base_url, question])
        return hashlib.sha256(asked.encode()).hexdigest()

    def _read_kept(self, question: list[Message]) -> Answer | None:
        """The answer that was kept, None if there is none or it is damaged."""
        key = self._digest(question)
        with contextlib.suppress(OSError, ValueError, TypeError):
            record = json.loads((self.cache / f"{key}.json").read_text(encoding="utf-8"))
            self.used[key] = Answer(**record)
            return self.used[key]
        return None

    def _ask(self, question: list[Message]) -> Answer | Failure:
        """Ask one question, and keep its answer."""
        try:
            answer = self._read(self._request(question))
        except (self._openai.BadRequestError, self._openai.UnprocessableEntityError) as error:
            return Failure(REFUSED, self._reason(error))
        except (self._openai.APIStatusError, self._openai.APIConnectionError) as error:
            raise self._describe(error) from None
        except (self._openai.OpenAIError, ValueError):
            answer = None
        if answer is None:
            return Failure(UNREADABLE, "what came is not an answer of a chat model.")
        key = self._digest(question)
        write_json(self.cache / f"{key}.json", dataclasses.asdict(answer))
        self.used[key] = answer
        return answer

    def _request(self, question: list[Message]) -> Any:
        """Ask with all wishes, then without those that the server refuses, which are remembered."""
        wishes = dict(self.wishes)
        while True:
            try:
                completion = self._client.chat.completions.create(model=self.name, messages=question, **wishes)
            except (self._openai.BadRequestError, self._openai.UnprocessableEntityError) as error:
                refused = {name for name in wishes if name in error.message} or wishes.keys() & {"logprobs"}
                if not refused:
                    raise
                wishes = {name: value for name, value in wishes.items() if name not in refused}
            else:
                self.wishes = {name: value for name, value in self.wishes.items() if name in wishes}
                return completion

    def _read(self, completion: Any) -> Answer | None:
        """Read an answer; None if what the server sent is not one."""
        try:
            text = (completion.choices[0].message.content or "").rpartition("</think>")[2]
        except (AttributeError, IndexError, TypeError):
            return None
        if not is_writable(text):
            return None
        certainty = None
        with contextlib.suppress(AttributeError, TypeError, ValueError):  # it is not needed
            certainty = math.exp(min(token.logprob for token in completion.choices[0].logprobs.content))
        counts = (getattr(completion.usage, name, None) for name in TOKENS)
        return Answer(text, certainty, *(count if isinstance(count, int) else 0 for count in counts))

    def _reason(self, error: Any) -> str:
        """What the server said, without the key."""
        body = error.body if isinstance(error.body, dict) else {}
        place = error.response.headers.get("location")
        text = f"it sends on to {place}" if place else str(body.get("message") or error.message)
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
                f"{self.base_url} refuses the key: {reason}", hint=f"Set the environment variable {KEY} anew. {GOES_ON}"
            )
        if isinstance(error, self._openai.NotFoundError) or error.response.has_redirect_location:
            return CrossNERError(
                f"{self.base_url} knows no model {self.name!r}, or is the wrong address: {reason}",
                hint=f"Check --teacher openai:MODEL and --base-url, which mostly ends in /v1. {GOES_ON}",
            )
        return CrossNERError(
            f"{self.base_url} does not answer: {reason}", hint=f"Try again later, or with fewer --parallel. {GOES_ON}"
        )
