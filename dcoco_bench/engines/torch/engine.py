"""The embedded engine: C streams decode as one batch; each step is one draft-and-verify round for all of them."""

from __future__ import annotations

from collections import deque
from time import perf_counter
from typing import Any

import torch
from torch import Generator, Tensor

from dcoco_bench.cells import Sampling
from dcoco_bench.drafting.drafter import Drafter, Proposal
from dcoco_bench.drafting.verify import (
    Verdict,
    draw,
    target_distribution,
    uniforms,
    verify_greedy,
    verify_point_mass,
    verify_sampled,
)
from dcoco_bench.engines.base import CANDIDATES, Finished, Request
from dcoco_bench.engines.torch.phases import PhaseClock
from dcoco_bench.engines.torch.stream import Stream
from dcoco_bench.engines.torch.synthetic import accept_synthetic
from dcoco_bench.engines.torch.target import Target

DRAFTING = 1 << 62  # sets a request's second random stream apart from every request's first


class TorchEngine:
    """Implements `engines.base.Engine`. Rows 0..len(streams)-1 of the caches are always the ones in use."""

    def __init__(
        self,
        target: Target,
        drafter: Drafter | None,
        *,
        stop_ids: frozenset[int],
        max_concurrency: int,
        max_context: int,
        record_candidates: bool = False,
        synthetic_tau: float | None = None,
    ) -> None:
        self.synthetic_tau = synthetic_tau
        self.target, self.drafter, self.stop_ids = target, drafter, stop_ids
        target.taps = drafter.taps if drafter else ()
        self.max_context = max_context
        self.record = record_candidates
        self.slots = drafter.slots if drafter else 0
        self.clock = PhaseClock(target.device)
        self.steps = 0
        self.streams: list[Stream] = []
        self.waiting: deque[Request] = deque()
        self.rows = 0
        if drafter and record_candidates:
            drafter.record_candidates(CANDIDATES)
        self.ensure_capacity(max_concurrency)

    def ensure_capacity(self, concurrency: int) -> None:
        """Grow the caches to `concurrency` streams. Only between requests."""
        if concurrency <= self.rows:
            return
        if self.streams:
            raise RuntimeError("capacity can only grow while no request is in flight")
        capacity = self.max_context + self.slots + 1  # a round writes N+1 positions past the last delivered one
        self.target.allocate(concurrency, capacity)
        if self.drafter:
            self.drafter.allocate(concurrency, capacity)
        self.rows = concurrency

    def submit(self, request: Request) -> None:
        if len(request.prompt_ids) + request.max_tokens > self.max_context:
            raise ValueError(
                f"request {request.id}: {len(request.prompt_ids)} prompt + {request.max_tokens} output tokens "
                f"exceed the engine's context of {self.max_context}"
            )
        self.waiting.append(request)

    @torch.inference_mode()
    def poll(self) -> list[Finished]:
        """Prefill what waits, then one round for every stream."""
        self.clock.start()
        done: list[Finished] = []
        while self.waiting and len(self.streams) < self.rows:
            self._prefill(self.waiting.popleft())
            done += self._retire()
        if self.streams:
            self._round()
            done += self._retire()
        return done

    def _prefill(self, request: Request) -> None:
        """Prompt through the target at the next free row; its last logits give the first token."""
        device, row = self.target.device, len(self.streams)
        own = (request.seed << 32) + request.id
        generator, drafting = Generator().manual_seed(own), Generator().manual_seed(own ^ DRAFTING)
        stream = Stream(request, generator, drafting, start=perf_counter())
        if self.record:
            stream.candidates, stream.margins = [], []
        ids = torch.tensor([request.prompt_ids], device=device)
        zero = torch.zeros(1, dtype=torch.long, device=device)
        logits, features = self.target.forward(row, ids, zero, keep=1)
        token = self._first_token(logits[:, -1], request.sampling, generator)
        if self.drafter:
            assert features is not None
            self.drafter.observe(row, features, zero)
        stream.length = len(request.prompt_ids)
        stream.deliver([token], self.stop_ids)
        if stream.margins is not None:
            stream.margins += _margins(logits[0, -1:])
        stream.first_token = perf_counter()
        self.streams.append(stream)
        self.clock.lap("prefill")

    def _first_token(self, logits: Tensor, sampling: Sampling, generator: Generator) -> int:
        if sampling.greedy:
            return int(logits.argmax(-1))
        return int(draw(target_distribution(logits, sampling), uniforms([generator], 1, logits.device)[:, 0]))

    def _round(self) -> None:
        streams, device = self.streams, self.target.device
        sampling = streams[0].request.sampling
        generators = [s.generator for s in streams]
        anchors = torch.tensor([s.anchor for s in streams], device=device)
        starts = torch.tensor([s.length for s in streams], device=device)
        # Drafting past the longest remaining answer is wasted; the target's own token always adds one.
        slots = min(self.slots, max(s.remaining for s in streams) - 1)
        self.clock.lap("other")

        proposal: Proposal | None = None
        ids = anchors[:, None]
        if self.drafter and slots > 0:
            drafting = [s.drafting for s in streams]
            proposal = self.drafter.propose(0, anchors, starts, sampling, drafting, self.clock.lap)
            if proposal.probs is not None:
                proposal = _within_answers(proposal, [s.remaining - 1 for s in streams])
            if proposal.lengths is not None:
                slots = min(slots, int(proposal.lengths.max()))
            ids = torch.cat([ids, proposal.tokens[:, :slots]], dim=1)
        logits, features = self.target.forward(0, ids, starts)
        verdict = self._verify(logits, ids[:, 1:], proposal, sampling, generators)
        accepted, following = verdict.accepted.tolist(), verdict.following.tolist()
        self.clock.lap("verify")

        if self.drafter:
            assert features is not None
            kept = max(accepted) + 1  # rows that accepted fewer get overwritten by their next round
            self.drafter.observe(0, features[:, :kept], starts)
            self.clock.lap("draft")
        self._commit(ids, accepted, following, proposal, logits)
        self.steps += 1
        self.clock.lap("other")

    def _verify(
        self,
        logits: Tensor,
        drafts: Tensor,
        proposal: Proposal | None,
        sampling: Sampling,
        generators: list[Generator],
    ) -> Verdict:
        if self.synthetic_tau is not None:
            return accept_synthetic(logits, drafts, self.synthetic_tau, generators)
        lengths = proposal.lengths if proposal else None
        if sampling.greedy:
            return verify_greedy(logits, drafts, lengths)
        # Always as many as a whole block takes: how far a neighbour may still draft must not move a request's stream.
        rolls = uniforms(generators, self.slots + 1, logits.device)
        if proposal is None and self.drafter and self.drafter.sampled:
            rolls = rolls[:, -1:]  # the column that draws the target's own token beside a sampled draft
        if proposal is None or proposal.probs is None:
            return verify_point_mass(logits, drafts, sampling, rolls, lengths)
        return verify_sampled(logits, drafts, proposal.probs[:, : drafts.shape[1]], sampling, rolls, lengths)

    def _commit(
        self, ids: Tensor, accepted: list[int], following: list[int], proposal: Proposal | None, logits: Tensor
    ) -> None:
        drafts = ids[:, 1:].tolist()
        offered = proposal.lengths.tolist() if proposal and proposal.lengths is not None else None
        recorded = proposal.candidates.tolist() if proposal and proposal.candidates is not None else None
        for row, stream in enumerate(self.streams):
            count = accepted[row]
            delivered = stream.deliver([*drafts[row][:count], following[row]], self.stop_ids)
            stream.length += count + 1
            stream.rounds.drafted.append(min(len(drafts[row]), offered[row]) if offered else len(drafts[row]))
            stream.rounds.accepted.append(count)
            stream.rounds.delivered.append(delivered)
            if stream.candidates is not None and recorded is not None:
                stream.candidates.append(recorded[row])
            if stream.margins is not None:
                stream.margins += _margins(logits[row, :delivered])

    def _retire(self) -> list[Finished]:
        """Take out streams that ended; the last row moves into each gap."""
        now, done = perf_counter(), []
        for row in reversed(range(len(self.streams))):
            if self.streams[row].reason is None:
                continue
            done.append(self.streams[row].finished(now))
            last = len(self.streams) - 1
            if self.drafter:
                self.drafter.forget(row)
            if row != last:
                length = self.streams[last].length
                self.target.move_row(last, row, length)
                if self.drafter:
                    self.drafter.move_row(last, row, length)
                self.streams[row] = self.streams[last]
            self.streams.pop()
        return done

    def tokens_in_flight(self) -> int:
        return sum(len(s.output) for s in self.streams)

    def counters(self) -> dict[str, float]:
        return {f"{phase}_s": seconds for phase, seconds in self.clock.seconds.items()} | {"steps": float(self.steps)}

    def effective_config(self) -> dict[str, Any]:
        return {
            "dtype": str(self.target.dtype).removeprefix("torch."),
            "device": str(self.target.device),
            "threads": torch.get_num_threads(),
            "max_context": self.max_context,
            **({"simulated": True, "synthetic_tau": self.synthetic_tau} if self.synthetic_tau is not None else {}),
            **(self.drafter.effective_config() if self.drafter else {}),
        }

    def close(self) -> None:
        self.streams.clear()
        self.waiting.clear()


def _within_answers(proposal: Proposal, left: list[int]) -> Proposal:
    """Offer each row no more than its own answer can take: a sampled draft past it would draw its last token from the
    draft instead of the target, the same law but another token, only because a neighbour still drafts."""
    room = torch.tensor(left, device=proposal.tokens.device)
    return proposal._replace(lengths=room if proposal.lengths is None else torch.minimum(room, proposal.lengths))


def _margins(logits: Tensor) -> list[float]:
    """Top-1 minus top-2 logit of each row [n, V]: how close a tie was."""
    best = logits.float().topk(2, dim=-1).values
    return [round(m, 5) for m in (best[:, 0] - best[:, 1]).tolist()]
