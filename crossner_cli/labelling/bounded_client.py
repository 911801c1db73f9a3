"""The HTTP client for language models: answers are limited in seconds and bytes, and come from one address."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import httpx2
import openai

LEAST_BOUND, TIMES_THE_QUESTION = 4_000_000, 20  # bytes of an answer: 30,000 tokens with their probabilities


class BoundedClient(openai.DefaultAsyncHttpxClient):
    """A client that reads whole answers within limits of seconds and bytes, and does not follow redirects."""

    def __init__(self, seconds: float) -> None:
        super().__init__(follow_redirects=False)
        self._seconds = seconds

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request and read its answer, unpacked."""
        most = max(LEAST_BOUND, TIMES_THE_QUESTION * len(request.content))
        options["stream"], body = True, bytearray()
        try:
            async with asyncio.timeout(self._seconds), aclosing(await super().send(request, **options)) as response:
                async for piece in response.aiter_bytes():
                    body += piece
                    if len(body) > most:
                        raise openai.OpenAIError(f"The answer has more than {most} bytes.")
        except TimeoutError:
            raise httpx2.ReadTimeout("The answer takes too long.", request=request) from None
        headers = response.headers.copy()
        headers.pop("content-encoding", None)
        if b"insufficient_quota" in body:
            headers["x-should-retry"] = "false"
        return httpx2.Response(response.status_code, headers=headers, content=bytes(body), request=request)
