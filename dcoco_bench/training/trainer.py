"""The training loop: one objective, one budget, resumable, with held-out tau as it goes."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from dcoco_bench.errors import UserError
from dcoco_bench.training.batches import Batch, Sequence, batches
from dcoco_bench.training.muon import Muon, split_parameters
from dcoco_bench.training.objective import Objective
from dcoco_bench.training.walk import Tally, walk


@dataclass(frozen=True)
class Settings:
    """Budget: whichever of `steps` and `seconds` is reached first ends the schedule (None = no limit)."""

    steps: int | None = None
    seconds: float | None = None
    sequences: int = 8  # a step
    anchors: int = 48  # blocks a sequence
    lr: float = 1e-3  # AdamW: everything, or what Muon leaves
    matrix_lr: float = 4e-3  # Muon; update RMS is 0.2 x lr
    optimizer: str = "muon"  # or "adamw"
    backbone_lr: float = 1.0  # the backbone's share of both rates; a head starts afresh, a --from backbone does not
    warmup: float = 0.04  # share of the budget
    clip: float = 1.0
    seed: int = 42
    evaluate_every: float = 300.0  # seconds
    bf16: bool = False  # bf16 compute over fp32 masters


class Trainer:
    """Writes `<out>/state.pt` (resume) and `<out>/log.jsonl` (the curve)."""

    def __init__(
        self, objective: Objective, train: list[Sequence], held_out: list[Sequence], out: Path, settings: Settings
    ) -> None:
        self.objective, self.train_set, self.held_out, self.out, self.settings = (
            objective,
            train,
            held_out,
            out,
            settings,
        )
        self.device = next(objective.parameters()).device
        self.step = self.blocks = 0
        self.elapsed = 0.0
        self.optimizers = self._optimizers()
        out.mkdir(parents=True, exist_ok=True)

    def _optimizers(self) -> list[torch.optim.Optimizer]:
        lr = self.settings.lr
        if self.settings.optimizer == "adamw":
            params: list[torch.Tensor] = [p for p in self.objective.parameters() if p.requires_grad]
            return [torch.optim.AdamW(self._groups(params), lr=lr, weight_decay=0.0)]
        matrices, rest = split_parameters(self.objective)
        matrix_lr = self.settings.matrix_lr
        return [
            torch.optim.AdamW(self._groups(rest), lr=lr, weight_decay=0.0),
            Muon(self._groups(matrices), lr=matrix_lr),
        ]

    def _groups(self, params: list[torch.Tensor]) -> list[dict[str, Any]]:
        """The head's parameters, then the backbone's; each group keeps its share of the optimizer's rate."""
        share = self.settings.backbone_lr
        if share == 1.0:
            return [{"params": params, "share": 1.0}]
        mine = {id(p) for p in self.objective.backbone.parameters()}
        head, backbone = [p for p in params if id(p) not in mine], [p for p in params if id(p) in mine]
        return [{"params": g, "share": s} for g, s in ((head, 1.0), (backbone, share)) if g]

    @property
    def progress(self) -> float:
        """Share of the budget spent, 0..1."""
        spent = [0.0]
        if self.settings.steps:
            spent.append(self.step / self.settings.steps)
        if self.settings.seconds:
            spent.append(self.elapsed / self.settings.seconds)
        return min(1.0, max(spent))

    def _scale_lr(self) -> None:
        p, warmup = self.progress, self.settings.warmup
        factor = (p + 1e-3) / warmup if p < warmup else 0.5 * (1 + math.cos(math.pi * (p - warmup) / (1 - warmup)))
        peaks = (self.settings.lr, self.settings.matrix_lr)
        for optimizer, peak in zip(self.optimizers, peaks, strict=False):
            for group in optimizer.param_groups:
                group["lr"] = peak * min(1.0, factor) * group.get("share", 1.0)

    def run(self, report: Callable[[dict[str, Any]], None]) -> Tally:
        """Train to the end of the budget; `report` gets each log row. Returns the final held-out tally."""
        feed = self._feed()
        next_evaluation = self.elapsed + self.settings.evaluate_every
        while self.progress < 1.0:
            began = perf_counter()
            row = self._step(next(feed))
            self.elapsed += perf_counter() - began
            row["seconds"] = round(self.elapsed, 1)
            if self.elapsed >= next_evaluation:
                next_evaluation = self.elapsed + self.settings.evaluate_every
                row |= self._evaluation(self.held_out[:24])
                self.save()
            if self.step % 10 == 0 or "tau" in row:
                self._log(row, report)
        final = self.evaluate(self.held_out)
        self._log(self._row() | {"tau": final.tau, "rounds": final.rounds, "final": True}, report)
        self.save()
        return final

    def _feed(self) -> Any:
        # A resumed run draws new anchors rather than replaying the old ones: the seed moves with the step.
        generator = torch.Generator().manual_seed(self.settings.seed + self.step)
        config = self.objective.config
        return batches(
            self.train_set,
            size=self.settings.sequences,
            anchors=self.settings.anchors,
            slots=config.slots,
            hidden=config.hidden_size,
            generator=generator,
        )

    def _step(self, batch: Batch) -> dict[str, Any]:
        self._scale_lr()
        batch = Batch(*(part.to(self.device) for part in vars(batch).values()))
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.settings.bf16):
            loss = self.objective.loss(batch, self.progress)
        loss.value.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.objective.parameters(), self.settings.clip)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad()
        self.step += 1
        self.blocks += int(batch.supervised.any(-1).sum())
        return self._row() | loss.parts | {"grad_norm": float(norm)}

    def _row(self) -> dict[str, Any]:
        return {"step": self.step, "blocks": self.blocks, "seconds": round(self.elapsed, 1), "progress": self.progress}

    def _evaluation(self, sequences: list[Sequence]) -> dict[str, float]:
        tally = self.evaluate(sequences)
        return {"tau": tally.tau, "rounds": tally.rounds}

    @torch.no_grad()
    def evaluate(self, sequences: list[Sequence]) -> Tally:
        """Walk held-out answers with the objective's own served draft (not the unary head, methods.md trap 8)."""
        config = self.objective.config
        self.objective.eval()
        try:
            return walk(sequences, self._draft, config.slots, config.hidden_size)
        finally:
            self.objective.train()

    def _draft(self, batch: Batch) -> torch.Tensor:
        return self.objective.draft(Batch(*(part.to(self.device) for part in vars(batch).values()))).cpu()

    def _log(self, row: dict[str, Any], report: Callable[[dict[str, Any]], None]) -> None:
        rounded = {k: round(v, 5) if isinstance(v, float) else v for k, v in row.items()}
        with (self.out / "log.jsonl").open("a") as file:
            file.write(json.dumps(rounded) + "\n")
        report(rounded)

    def save(self) -> None:
        """Everything a resumed run needs, by rename: a kill leaves the last good state."""
        partial = self.out / "state.pt.part"
        torch.save(
            {
                "objective": self.objective.state_dict(),
                "optimizers": [o.state_dict() for o in self.optimizers],
                "step": self.step,
                "blocks": self.blocks,
                "elapsed": self.elapsed,
                "settings": asdict(self.settings),
            },
            partial,
        )
        partial.rename(self.out / "state.pt")

    def resume(self) -> bool:
        """Continue from `<out>/state.pt` if it is there. Settings of the new call apply (a longer budget, say).

        Raises UserError for another `backbone_lr`: the optimizers' groups are made for it.
        """
        path = self.out / "state.pt"
        if not path.exists():
            return False
        state = torch.load(path, map_location=self.device, weights_only=True)
        if (share := state["settings"].get("backbone_lr", 1.0)) != self.settings.backbone_lr:
            raise UserError(f"--resume: {self.out} was begun with --backbone-lr {share:g}; keep it, or start anew")
        self.objective.load_state_dict(state["objective"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        self.step, self.blocks, self.elapsed = state["step"], state["blocks"], state["elapsed"]
        return True
