"""DFlash: a whole block in one pass, every slot on its own (arXiv 2602.06036; methods.md 3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dcoco_bench.drafting.block_method import BlockMethod

if TYPE_CHECKING:
    from dcoco_bench.drafting.backbone import BlockBackbone
    from dcoco_bench.drafting.published import PublishedForm
    from dcoco_bench.drafting.vocabulary import Vocabulary
    from dcoco_bench.training.objective import Objective, Tables
    from dcoco_bench.training.scaling import FeatureScale


class DFlash(BlockMethod):
    name = "dflash"
    summary = "parallel drafter: one pass drafts a whole block, slots do not see each other"
    paper = "2602.06036"

    def published(self) -> PublishedForm:
        from .published import DFlashForm

        return DFlashForm()

    def objective(
        self,
        backbone: BlockBackbone,
        tables: Tables,
        vocabulary: Vocabulary,
        scale: FeatureScale,
        params: Mapping[str, Any],
    ) -> Objective:
        from .objective import DFlashObjective

        return DFlashObjective(backbone, tables, vocabulary, scale)


METHOD = DFlash()
