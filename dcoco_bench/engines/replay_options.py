"""The replay engine's options, parsed from `--engine-arg` text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field, ValidationError, field_validator

from dcoco_bench.cells import Frozen
from dcoco_bench.errors import UserError, nearest

DEFAULT_DRAFT_TOKENS = 7


class ReplayOptions(Frozen):
    """Times in milliseconds per engine step (all streams together), unless said otherwise."""

    n: int = Field(default=0, ge=0)  # draft tokens per round; 0 = plain decoding
    accept: float = Field(default=0.7, ge=0.0, le=1.0)  # chance that a draft token is right, given all before it
    tau: float | None = Field(default=None, ge=1.0)  # instead of `accept`: the wanted accepted length, bonus included
    length: float = Field(default=96.0, gt=0.0)  # mean answer length in tokens; answers vary by half of it
    prefill_ms: float = Field(default=5.0, ge=0.0)  # per request
    prefill_token_ms: float = Field(default=0.05, ge=0.0)  # per prompt token
    draft_ms: float = Field(default=4.0, ge=0.0)
    head_ms: float = Field(default=0.0, ge=0.0)
    verify_ms: float = Field(default=20.0, ge=0.0)
    row_ms: float = Field(default=1.0, ge=0.0)  # added to each step per stream in it
    clock: str = "virtual"  # or `real`: sleeps for the time that a step costs
    log: str = ""  # a run folder, a cell folder or a requests.jsonl to replay instead of the synthetic process
    fail: float = Field(default=0.0, ge=0.0, le=1.0)  # share of requests that fail, to rehearse failures
    crash_after: int | None = Field(default=None, ge=0)  # requests before the engine dies, to rehearse crashes

    @field_validator("clock")
    @classmethod
    def _clock(cls, value: str) -> str:
        if value not in ("virtual", "real"):
            raise ValueError(f"{value!r} is neither virtual nor real")
        return value

    @property
    def virtual(self) -> bool:
        return self.clock == "virtual"

    def record(self) -> dict[str, object]:
        return self.model_dump(mode="json", exclude_defaults=True)

    @classmethod
    def parse(
        cls, engine_args: Mapping[str, str], method: str, params: Mapping[str, Any], *, drafts: bool
    ) -> ReplayOptions:
        """`METHOD.key` wins over `key`; N comes from the options, else the method's `n` in the cell, else a default.

        A method that does not draft ignores the shared options of drafting, so that one set serves all methods.
        """
        shared = {k: v for k, v in engine_args.items() if "." not in k}
        own = {k.partition(".")[2]: v for k, v in engine_args.items() if k.partition(".")[0] == method and "." in k}
        for key in (*shared, *(k.partition(".")[2] for k in engine_args if "." in k)):
            if key not in cls.model_fields:
                raise UserError(f"--engine-arg {key}: unknown to replay; {nearest(key, list(cls.model_fields))}")
        if not drafts:
            shared.pop("n", None)
        n = (params.get("n") or DEFAULT_DRAFT_TOKENS) if drafts else 0
        try:
            options = cls.model_validate({"n": n, **shared, **own})
        except ValidationError as error:
            detail = error.errors(include_url=False)[0]
            key = ".".join(str(part) for part in detail["loc"])
            reason = detail["msg"].removeprefix("Value error, ")
            raise UserError(f"--engine-arg {key}={detail.get('input')}: {reason}; see `list engines`") from None
        if options.tau is not None and options.n:
            return options.model_copy(update={"accept": _accept_for(options.tau, options.n)})
        return options


def _accept_for(tau: float, n: int) -> float:
    """The per-token chance p with 1 + p + p² + … + pⁿ = tau, by bisection."""
    if tau > n + 1:
        raise UserError(f"--engine-arg tau={tau:g}: a round of {n} draft tokens delivers at most {n + 1}; raise n")
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(middle**i for i in range(n + 1)) < tau else (low, middle)
    return low
