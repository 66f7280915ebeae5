"""`--engine-arg synthetic-tau=3`: every round accepts as if tau were that, so that methods differ in cost alone."""

from __future__ import annotations

from collections.abc import Mapping

from dcoco_bench.errors import UserError

ARGUMENT = "synthetic-tau"


def synthetic_tau(engine_args: Mapping[str, str], slots: int | None) -> float | None:
    """None = as the target decides. `slots` drafted a round; None for a method that drafts nothing, which is marked all
    the same: it is the baseline of simulated cells. Raises UserError for what no round can deliver."""
    said = engine_args.get(ARGUMENT)
    if said is None:
        return None
    most = (slots or 0) + 1
    try:
        tau = float(said)
    except ValueError:
        tau = 0.0
    if not tau >= 1:
        raise UserError(f"--engine-arg {ARGUMENT}={said}: must be a number, 1 or more")
    if slots is not None and tau > most:
        raise UserError(f"--engine-arg {ARGUMENT}={said}: a round of {slots} draft tokens delivers {most} at most")
    return tau
