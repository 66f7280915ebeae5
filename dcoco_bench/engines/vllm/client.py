"""The client: one streamed completion per request, through the official `openai` package."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import Any

from openai import AsyncOpenAI, DefaultAsyncHttpxClient, Timeout

from dcoco_bench.engines.base import Finished, Request, Rounds
from dcoco_bench.engines.vllm.rounds import from_report, from_stream, undrafted

CONNECT_S = 10.0


@dataclass(frozen=True)
class Serving:
    """What every request needs to know about the server."""

    url: str
    model: str
    stop_ids: frozenset[int]
    draft_tokens: int  # N; 0 = plain decoding
    reports_rounds: bool  # each request's rounds ride on its last chunk
    timeout: float  # seconds without a chunk


class Client:
    """Not more requests in flight than its load submits; no retry here, so that no latency hides one."""

    def __init__(self, serving: Serving) -> None:
        self.serving = serving
        limit = Timeout(serving.timeout, connect=CONNECT_S)
        self._openai = AsyncOpenAI(
            base_url=f"{serving.url}/v1",
            api_key="none",
            max_retries=0,
            timeout=limit,
            http_client=DefaultAsyncHttpxClient(timeout=limit, trust_env=False),  # no proxy on the way to the loopback
        )

    async def complete(self, request: Request) -> Finished:
        """Never raises for a failed request: the reason is in the result."""
        start = perf_counter()
        seen = _Stream()
        try:
            stream = await self._openai.completions.create(**self._arguments(request), stream=True)
            async for chunk in stream:
                seen.take(chunk, perf_counter())
        except Exception as error:  # refused, dropped, hung, a 500: whatever it is, it is this request's failure
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            return seen.failed(request, start, f"{type(error).__name__}: {reason}")
        return self._finished(request, start, seen)

    def _arguments(self, request: Request) -> dict[str, Any]:
        s = request.sampling
        return {
            "model": self.serving.model,
            "prompt": request.prompt_ids,  # ids, not text: what is decoded is what the log says
            "max_tokens": request.max_tokens,
            "temperature": s.temperature,
            "top_p": s.top_p,
            "seed": request.seed * (1 << 20) + request.id,
            "stream_options": {"include_usage": True},
            "extra_body": {
                "top_k": s.top_k,
                "stop_token_ids": sorted(self.serving.stop_ids),
                "return_token_ids": True,
            },
        }

    def _finished(self, request: Request, start: float, seen: _Stream) -> Finished:
        if seen.reason is None:
            return seen.failed(request, start, "the stream ended without a finish reason (dropped connection)")
        if seen.usage is not None and seen.usage != len(seen.ids):
            return seen.failed(request, start, f"{len(seen.ids)} token ids came, the server counts {seen.usage}")
        return Finished(
            request.id,
            seen.ids,
            "length" if seen.reason == "length" else "stop",
            start,
            seen.times[0] if seen.times else None,
            seen.times[-1] if seen.times else perf_counter(),
            self._rounds(seen),
            chunks=list(zip(seen.growth, seen.times, strict=True)),
        )

    def _rounds(self, seen: _Stream) -> Rounds | None:
        if not self.serving.draft_tokens:
            return undrafted(len(seen.ids))
        if self.serving.reports_rounds:
            return from_report(seen.report, len(seen.ids))
        return from_stream(seen.growth, self.serving.draft_tokens)

    async def close(self) -> None:
        await self._openai.close()


class _Stream:
    """What has come of one answer so far."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.growth: list[int] = []  # tokens of each chunk that had any
        self.times: list[float] = []
        self.reason: str | None = None
        self.usage: int | None = None
        self.report: dict[str, Any] | None = None

    def take(self, chunk: Any, now: float) -> None:
        for choice in chunk.choices:
            ids = (choice.model_extra or {}).get("token_ids") or []
            if ids:
                self.ids += ids
                self.growth.append(len(ids))
                self.times.append(now)
            self.reason = choice.finish_reason or self.reason
        if chunk.usage is not None:
            self.usage = chunk.usage.completion_tokens
        metrics = (chunk.model_extra or {}).get("metrics") or {}
        self.report = metrics.get("speculative_decoding") or self.report

    def failed(self, request: Request, start: float, reason: str) -> Finished:
        first = self.times[0] if self.times else None
        return Finished(request.id, self.ids, "error", start, first, perf_counter(), error=reason)
