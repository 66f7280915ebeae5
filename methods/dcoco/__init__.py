"""DCOCO: a parallel block, corrected by re-selecting among its own candidates (arXiv 2610.12570; methods.md 6)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dcoco_bench.drafting.block_method import BlockMethod
from dcoco_bench.drafting.head_store import check_belongs
from dcoco_bench.drafting.params import check_k

from .options import PARAMS

if TYPE_CHECKING:
    from dcoco_bench.drafting.backbone import BlockBackbone
    from dcoco_bench.drafting.block_drafter import BlockDrafter
    from dcoco_bench.drafting.vocabulary import Vocabulary
    from dcoco_bench.training.objective import Objective, Tables
    from dcoco_bench.training.scaling import FeatureScale

HEAD = "corrector"  # subfolder of the checkpoint


class DCOCO(BlockMethod):
    name = "dcoco"
    summary = "parallel drafter; one batched pass scores all transitions between candidates, a walk re-selects"
    paper = "2610.12570"
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
        from .drafter import DCOCODrafter
        from .store import load_corrector

        corrector, k = load_corrector(checkpoint / HEAD, params)
        check_belongs(checkpoint / HEAD, ("hidden_size", corrector.config.hidden_size, backbone.config.hidden_size))
        check_k(self.name, k, vocabulary)
        return DCOCODrafter(
            backbone,
            vocabulary,
            target.embedding,
            target.head,
            slots,
            corrector,
            k=k,
            rule=params["select"],
            discount=params["lambda"],
            enabled=params["corrector"],
        )

    def objective(
        self,
        backbone: BlockBackbone,
        tables: Tables,
        vocabulary: Vocabulary,
        scale: FeatureScale,
        params: Mapping[str, Any],
    ) -> Objective:
        from .head import CorrectorConfig
        from .objective import DCOCOObjective
        from .options import K, training_options

        pair, zero, first = params["pair"], params["zero"], params["first"]
        config = CorrectorConfig(
            backbone.config.hidden_size, pair=pair is not False, zero=zero or "none", first=first is True
        )
        k = params["k"] or min(K, len(vocabulary))
        check_k(self.name, k, vocabulary)
        return DCOCOObjective(backbone, tables, vocabulary, scale, config, k=k, options=training_options(params))

    def save(self, folder: Path, objective: Objective, tables: Tables) -> None:
        from .objective import DCOCOObjective
        from .store import save_corrector

        assert isinstance(objective, DCOCOObjective)
        super().save(folder, objective, tables)
        save_corrector(folder / HEAD, objective.corrector, objective.k, objective.options)


METHOD = DCOCO()
