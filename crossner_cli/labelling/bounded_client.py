"""The HTTP client that asks language models: an answer has a last second and a last byte, and one address."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import httpx2
import openai

LEAST_BOUND = 4_000_000  # bytes: about 30,000 tokens with their probabilities
BYTES_A_BYTE = 20  # of the question


class BoundedClient(openai.DefaultAsyncHttpxClient):
    """A client that reads each answer whole, and follows no redirect to another address.

    Args:
        seconds: The time from the connection to the last byte of an answer.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__(follow_redirects=False)
        self._seconds = seconds

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request and read its answer.

        Raises:
            httpx2.ReadTimeout: The answer takes too long.
            openai.OpenAIError: It is too large, unpacked.
        """
        most = max(LEAST_BOUND, BYTES_A_BYTE * len(request.content))
        body = bytearray()
        try:
            async with (
                asyncio.timeout(self._seconds),
                contextlib.aclosing(await super().send(request, **{**options, "stream": True})) as response,
            ):
                async for piece in response.aiter_bytes():
                    body += piece
                    if len(body) > most:
                        raise openai.OpenAIError(f"what came has more than {most:,} bytes.")
        except TimeoutError:
            raise httpx2.ReadTimeout("The answer takes too long.", request=request) from None
        headers = response.headers.copy()
        headers.pop("content-encoding", None)  # the body is unpacked
        return httpx2.Response(response.status_code, headers=headers, content=bytes(body), request=request)
