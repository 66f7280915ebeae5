"""The keys of `vllm bench serve` result files (0.27 and 0.32) that both directions need."""

from __future__ import annotations

from dcoco_bench.stats.totals import ACCEPTED, DRAFT_TOKENS, DRAFTS

COUNTERS = {  # their totals -> the server's counters that they are deltas of
    "spec_decode_num_drafts": DRAFTS,
    "spec_decode_draft_tokens": DRAFT_TOKENS,
    "spec_decode_accepted_tokens": ACCEPTED,
}
DETAILED = ("input_lens", "output_lens", "ttfts", "itls")  # with --save-detailed only
