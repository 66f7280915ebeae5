"""Domino: DFlash with a GRU over the block's prefix that corrects the next slot (arXiv 2605.29707; methods.md 5)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dcoco_bench.drafting.block_method import BlockMethod
from dcoco_bench.drafting.head_store import check_belongs
from dcoco_bench.errors import UserError

from .options import PARAMS

if TYPE_CHECKING:
    from dcoco_bench.drafting.backbone import BlockBackbone
    from dcoco_bench.drafting.block_drafter import BlockDrafter
    from dcoco_bench.drafting.published import PublishedForm
    from dcoco_bench.drafting.vocabulary import Vocabulary
    from dcoco_bench.training.objective import Objective, Tables
    from dcoco_bench.training.scaling import FeatureScale

HEAD = "domino"  # subfolder of the checkpoint


class Domino(BlockMethod):
    name = "domino"
    summary = "parallel drafter; a GRU reads the chosen tokens and corrects the next slot, one after the other"
    paper = "2605.29707"
    params = PARAMS

    def build(
        self,
        checkpoint: Path,
        backbone: BlockBackbone,
        vocabulary: Vocabulary,
        target: Any,
        slots: int | None,
        params: Mapping[str, Any],
    ) -> BlockDrafter:
        from .drafter import DominoDrafter
        from .store import load_domino

        head = load_domino(checkpoint / HEAD, params)
        check_belongs(
            checkpoint / HEAD,
            ("hidden_size", head.config.hidden_size, backbone.config.hidden_size),
            ("vocab_size", head.config.vocab_size, len(vocabulary)),
        )
        sampled = params["draft"] == "sampled"
        return DominoDrafter(backbone, vocabulary, target.embedding, target.head, slots, head, sampled=sampled)

    def published(self) -> PublishedForm:
        from .published import DominoForm

        return DominoForm()

    def objective(
        self,
        backbone: BlockBackbone,
        tables: Tables,
        vocabulary: Vocabulary,
        scale: FeatureScale,
        params: Mapping[str, Any],
    ) -> Objective:
        from .head import DominoConfig
        from .objective import DominoObjective
        from .options import training_options

        d, pure = backbone.config.hidden_size, params["pure"] or 1
        if pure >= backbone.config.slots:
            raise UserError(
                f"domino@pure={pure}: leaves the head none of {backbone.config.slots} slots; say less than that"
            )
        config = DominoConfig(
            d,
            len(vocabulary),
            gru_hidden_dim=params["gru"] or max(256, d // 4),
            emb_dim=params["rank"] or max(64, d // 16),
            pure_draft_prefix_len=pure,
        )
        return DominoObjective(backbone, tables, vocabulary, scale, config, options=training_options(params))

    def save(self, folder: Path, objective: Objective, tables: Tables) -> None:
        from .objective import DominoObjective
        from .store import save_domino

        assert isinstance(objective, DominoObjective)
        super().save(folder, objective, tables)
        save_domino(folder / HEAD, objective.domino, objective.options)


METHOD = Domino()
