"""Implements `engines.base.Engine` over a server: requests run on an event loop of their own."""

from __future__ import annotations

import asyncio
import queue
import threading
from typing import Any

from dcoco_bench.engines.base import Finished, Request
from dcoco_bench.engines.vllm.candidates import CandidateFile
from dcoco_bench.engines.vllm.client import Client, Serving
from dcoco_bench.engines.vllm.metrics import read_counters
from dcoco_bench.engines.vllm.server import Server, ServerError

WAIT_S = 0.5  # how long `poll` waits before it looks after the server


class VLLMEngine:
    """`server` is None for one that somebody else runs: it is then neither watched nor stopped.

    `recorded` is where its plug-in writes candidates, when asked to.
    """

    def __init__(
        self,
        serving: Serving,
        server: Server | None,
        effective: dict[str, Any],
        recorded: CandidateFile | None = None,
    ) -> None:
        self.serving, self.server, self._effective, self._recorded = serving, server, effective, recorded
        self._done: queue.SimpleQueue[Finished] = queue.SimpleQueue()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="vllm-client", daemon=True)
        self._thread.start()
        self._client = asyncio.run_coroutine_threadsafe(_make(serving), self._loop).result()

    def submit(self, request: Request) -> None:
        asyncio.run_coroutine_threadsafe(self._play(request), self._loop)

    async def _play(self, request: Request) -> None:
        finished = await self._client.complete(request)
        if self._recorded and not finished.error:
            finished.candidates = self._recorded.of(len(request.prompt_ids), finished.output_ids, finished.rounds)
        self._done.put(finished)

    def poll(self) -> list[Finished]:
        """Raises ServerError when the server has died: its requests will not come back."""
        try:
            finished = [self._done.get(timeout=WAIT_S)]
        except queue.Empty:
            self._watch()
            return []
        while not self._done.empty():
            finished.append(self._done.get())
        if any(f.error for f in finished):
            self._watch()
        return finished

    def _watch(self) -> None:
        if self.server is not None:
            self.server.check()

    def tokens_in_flight(self) -> int:
        return 0

    def counters(self) -> dict[str, float]:
        return read_counters(self.serving.url)

    def effective_config(self) -> dict[str, object]:
        return dict(self._effective)

    def close(self) -> None:
        try:
            asyncio.run_coroutine_threadsafe(self._client.close(), self._loop).result(timeout=5)
        except (TimeoutError, RuntimeError):
            pass  # the loop is stuck with a dead connection; it ends with its thread
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(timeout=5)
            if self.server is not None:
                self.server.stop()


async def _make(serving: Serving) -> Client:
    """Inside the loop that will use it."""
    return Client(serving)


__all__ = ["ServerError", "VLLMEngine"]
