"""DFlash: a whole block in one pass, every slot on its own (arXiv 2602.06036; methods.md 3)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dcoco_bench.drafting.layout import Layout
from dcoco_bench.errors import UserError
from dcoco_bench.method import Method, Param

if TYPE_CHECKING:
    from dcoco_bench.drafting.backbone import BlockBackbone
    from dcoco_bench.drafting.block_drafter import BlockDrafter
    from dcoco_bench.drafting.vocabulary import Vocabulary
    from dcoco_bench.training.objective import Objective, Tables
    from dcoco_bench.training.scaling import FeatureScale


def _slots(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError("must be at least 1")
    return value


class DFlash(Method):
    name = "dflash"
    summary = "parallel drafter: one pass drafts a whole block, slots do not see each other"
    paper = "2602.06036"
    params: Mapping[str, Param] = {  # type: ignore[misc]
        "n": Param(None, _slots, "n=4 verifies the block's first 4 draft tokens; the checkpoint's N when not said"),
        "layout": Param(None, Layout, "layout=fill-in or layout=anchor-first, for a checkpoint without a layout flag"),
    }

    def drafter(self, checkpoint: Path | None, target: Any, params: Mapping[str, Any]) -> BlockDrafter:
        from dcoco_bench.drafting.block_drafter import BlockDrafter
        from dcoco_bench.drafting.checkpoint import check_fits, load

        assert checkpoint is not None
        backbone, vocabulary = load(checkpoint, params["layout"])
        check_fits(checkpoint, backbone.config, **target.shape)
        slots, config = params["n"], backbone.config
        if slots is not None and slots > config.slots:
            raise UserError(
                f"dflash@n={slots}: the checkpoint's block of {config.block_size} ({config.layout.value}) "
                f"drafts {config.slots} tokens; say n={config.slots} or less"
            )
        return BlockDrafter(backbone, vocabulary, target.embedding, target.head, slots)

    def objective(
        self, backbone: BlockBackbone, tables: Tables, vocabulary: Vocabulary, scale: FeatureScale
    ) -> Objective:
        from .objective import DFlashObjective

        return DFlashObjective(backbone, tables, vocabulary, scale)


METHOD = DFlash()
