"""The server's command line for one (backbone, method), as a user would deploy it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dcoco_bench.engines.vllm.versions import VLLM
from dcoco_bench.method import VLLMDraft

HOST = "127.0.0.1"


@dataclass(frozen=True)
class ServerPlan:
    """Everything the server is asked for; `readback` holds the running one against it."""

    model: str
    name: str  # served under
    dtype: str
    max_context: int
    max_streams: int
    draft: VLLMDraft | None = None
    draft_folder: Path | None = None
    flags: Sequence[str] = ()
    synthetic_tau: float | None = None

    def command(self, vllm: VLLM, port: int) -> list[str]:
        words = [
            *vllm.serve(),
            *(("--model",) if vllm.cpu else ()),
            self.model,
            *("--served-model-name", self.name),
            *("--host", HOST, "--port", str(port)),
            *("--dtype", self.dtype),
            *("--max-model-len", str(self.max_context)),
            *("--max-num-seqs", str(self.max_streams)),
            "--no-enable-prefix-caching",  # a warm prefix would favour whoever runs second
        ]
        if self.draft:
            words += ["--speculative-config", json.dumps(self.speculative_config(), sort_keys=True)]
            if vllm.per_request_rounds:
                words += ["--enable-per-request-metrics", "--per-request-spec-decode-metrics", "detailed"]
        return [*words, *self.flags]

    def speculative_config(self) -> dict[str, object]:
        assert self.draft is not None
        return {
            "method": self.draft.method,
            "model": str(self.draft_folder),
            "num_speculative_tokens": self.draft.slots,
            **({"use_local_argmax_reduction": True} if self.draft.plugin else {}),  # the model chooses the tokens
            **(self._synthetic() if self.synthetic_tau is not None else {}),
        }

    def _synthetic(self) -> dict[str, object]:
        return {"rejection_sample_method": "synthetic", "synthetic_acceptance_length": self.synthetic_tau}
