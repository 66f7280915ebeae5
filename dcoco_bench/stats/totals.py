"""Acceptance where only a server's totals are known: an imported result, or a server that reports no rounds."""

from __future__ import annotations

from collections.abc import Mapping

from dcoco_bench.stats.acceptance import tau_from_totals
from dcoco_bench.stats.requests import RequestTable

DRAFTS = "vllm:spec_decode_num_drafts_total"  # as vLLM's servers count them
DRAFT_TOKENS = "vllm:spec_decode_num_draft_tokens_total"
ACCEPTED = "vllm:spec_decode_num_accepted_tokens_total"
REASON = "from totals: no interval, and decode steps without a draft are not known"


def from_totals(metric: str, table: RequestTable, counters: Mapping[str, float]) -> float | None:
    """tau, tau_raw or acceptance_rate of a cell; None where the counters do not hold what it needs."""
    drafts, drafted, accepted = (counters.get(key) for key in (DRAFTS, DRAFT_TOKENS, ACCEPTED))
    if not drafts or table.failed:  # a failed request's rounds are in the totals, its tokens are not
        return None
    if metric == "tau":
        return tau_from_totals(int(table.tokens.sum()), len(table), int(drafts))
    if metric == "tau_raw" and accepted is not None:
        return 1 + accepted / drafts
    if metric == "acceptance_rate" and accepted is not None and drafted:
        return accepted / drafted
    return None
