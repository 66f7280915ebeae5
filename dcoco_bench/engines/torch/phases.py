"""Where a step's time goes."""

from __future__ import annotations

from time import perf_counter

import torch

PHASES = ("prefill", "draft", "head", "verify", "other")


class PhaseClock:
    """Credits wall time to phases; each lap takes all that passed since the one before. Waits for the GPU first."""

    def __init__(self, device: torch.device) -> None:
        self.seconds = dict.fromkeys(PHASES, 0.0)
        self._wait = torch.cuda.synchronize if device.type == "cuda" else None
        self._last = perf_counter()

    def start(self) -> float:
        """Forget the time since the last lap (the engine was idle)."""
        self._last = perf_counter()
        return self._last

    def lap(self, phase: str) -> None:
        if self._wait is not None:
            self._wait()
        now = perf_counter()
        self.seconds[phase] += now - self._last
        self._last = now
