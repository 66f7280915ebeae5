"""An engine without a model: a seeded acceptance process, or a recorded log, under a cost model. It needs no torch.

For tests of the load, the log and resume, and for what-if planning. Options are `--engine-arg key=value`; with
`METHOD.key=value` an option holds for one method only (`dflash.accept=0.7`).
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dcoco_bench.backbone import Backbone
from dcoco_bench.engines.base import Finished, Request, Rounds
from dcoco_bench.engines.replay_options import ReplayOptions
from dcoco_bench.engines.replay_tokenizer import FIRST_WORD, VOCABULARY, ReplayTokenizer
from dcoco_bench.engines.replay_trace import Trace, load_traces
from dcoco_bench.method import Method


def open_engine(
    backbone: Backbone,
    method: Method,
    params: Mapping[str, Any],
    checkpoint: Path | None,
    *,
    dtype: str,
    seed: int,
    max_concurrency: int,
    max_context: int,
    record_candidates: bool,
    engine_args: Mapping[str, str],
    log_dir: Path,
) -> ReplayEngine:
    """The opener that every engine module has. The weights and the number type play no part here."""
    options = ReplayOptions.parse(engine_args, method.name, params, drafts=method.needs_checkpoint)
    traces = load_traces(Path(options.log), method.name) if options.log else {}
    return ReplayEngine(options, max_context, salt=f"{method.name} {sorted(params.items())}", traces=traces)


@dataclass
class _Stream:
    request: Request
    trace: Trace
    start: float
    first_token: float | None = None
    given: int = 0
    rounds: Rounds = field(default_factory=Rounds)


class ReplayEngine:
    """Answers depend on the prompt alone (and on the seed at T > 0), so every method gives the same tokens at T = 0."""

    def __init__(self, options: ReplayOptions, max_context: int, salt: str, traces: Mapping[str, Trace]) -> None:
        self.options, self.max_context = options, max_context
        self.tokenizer = ReplayTokenizer()
        self._salt, self._traces = salt, traces
        self._streams: dict[int, _Stream] = {}
        self._fresh: list[_Stream] = []
        self._seconds = 0.0  # of the virtual clock
        self._counters = dict.fromkeys(("prefill_s", "draft_s", "head_s", "verify_s", "other_s", "steps"), 0.0)
        self._ended = 0

    def now(self) -> float:
        return self._seconds if self.options.virtual else time.perf_counter()

    def submit(self, request: Request) -> None:
        stream = _Stream(request, self._trace(request), self.now())
        self._streams[request.id] = stream
        self._fresh.append(stream)

    def poll(self) -> list[Finished]:
        """Prefill what is new, then one round for every stream."""
        o = self.options
        if o.crash_after is not None and self._ended >= o.crash_after:
            raise RuntimeError(f"replay engine told to crash after {o.crash_after} requests")
        done: list[Finished] = []
        for stream in self._fresh:
            self._spend("prefill_s", o.prefill_ms + o.prefill_token_ms * len(stream.request.prompt_ids))
            stream.given, stream.first_token = 1, self.now()
        self._fresh.clear()
        done += self._retire()
        if self._streams:
            if o.n:
                self._spend("draft_s", o.draft_ms)
                self._spend("head_s", o.head_ms)
            self._spend("verify_s", o.verify_ms + o.row_ms * len(self._streams))
            self._counters["steps"] += 1
            for stream in self._streams.values():
                self._round(stream)
            done += self._retire()
        self._ended += len(done)
        return done

    def tokens_in_flight(self) -> int:
        return sum(s.given for s in self._streams.values())

    def counters(self) -> dict[str, float]:
        return dict(self._counters)

    def effective_config(self) -> dict[str, object]:
        return {"engine": "replay", "simulated": True, "draft_tokens": self.options.n, **self.options.record()}

    def close(self) -> None:
        self._streams.clear()

    def _spend(self, phase: str, ms: float) -> None:
        self._counters[phase] += ms / 1000
        self._seconds += ms / 1000
        if not self.options.virtual:
            time.sleep(ms / 1000)

    def _trace(self, request: Request) -> Trace:
        if self._traces:
            sha = prompt_key(request.prompt_ids)
            known = list(self._traces)
            key = sha if sha in self._traces else known[int(sha, 16) % len(known)]
            return self._traces[key].cut(request.max_tokens)
        return self._synthetic(request)

    def _synthetic(self, request: Request) -> Trace:
        seed = 0 if request.sampling.greedy else request.seed
        words = random.Random(f"{prompt_key(request.prompt_ids)} {seed}")
        wanted = max(1, round(self.options.length * words.uniform(0.5, 1.5)))
        length = min(wanted, request.max_tokens)
        ids = [words.randrange(FIRST_WORD, VOCABULARY) for _ in range(length)]
        luck = random.Random(f"{self._salt} {prompt_key(request.prompt_ids)} {request.seed}")
        accepted = []
        for _ in range(length):
            run = 0
            while run < self.options.n and luck.random() < self.options.accept:
                run += 1
            accepted.append(run)
        failed = random.Random(f"fail {request.id} {request.seed}").random() < self.options.fail
        drafted = [self.options.n] * length
        reason = "error" if failed else "stop" if wanted <= request.max_tokens else "length"
        return Trace(ids, drafted, accepted, reason)  # type: ignore[arg-type]

    def _round(self, stream: _Stream) -> None:
        trace, rounds = stream.trace, stream.rounds
        left = len(trace.output_ids) - stream.given
        at = min(len(rounds.drafted), len(trace.drafted) - 1)
        drafted, accepted = (trace.drafted[at], trace.accepted[at]) if at >= 0 else (0, 0)
        if left == 1:  # only the target's own token is wanted: nothing is drafted
            drafted = accepted = 0
        rounds.drafted.append(drafted)
        rounds.accepted.append(accepted)
        rounds.delivered.append(min(accepted + 1, left))
        stream.given += rounds.delivered[-1]

    def _retire(self) -> list[Finished]:
        done = [s for s in self._streams.values() if s.given >= len(s.trace.output_ids)]
        for stream in done:
            del self._streams[stream.request.id]
        return [self._finished(s) for s in done]

    def _finished(self, s: _Stream) -> Finished:
        if s.trace.finish_reason == "error":
            return Finished(s.request.id, [], "error", s.start, None, self.now(), error="simulated failure")
        reason, ids = s.trace.finish_reason, s.trace.output_ids
        return Finished(s.request.id, ids, reason, s.start, s.first_token, self.now(), rounds=s.rounds)


def prompt_key(prompt_ids: list[int]) -> str:
    """As `prompts.prompt_sha`, which the log holds: recorded traces are found by it."""
    from dcoco_bench.prompts import prompt_sha

    return prompt_sha(prompt_ids)
