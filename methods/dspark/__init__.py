"""DSpark: a block drafter with a low-rank Markov correction and a confidence per slot (arXiv 2607.05147)."""

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
    from dcoco_bench.method import VLLMDraft
    from dcoco_bench.training.objective import Objective, Tables
    from dcoco_bench.training.scaling import FeatureScale

HEAD = "dspark"  # subfolder of the checkpoint


class DSpark(BlockMethod):
    name = "dspark"
    summary = "parallel drafter; a low-rank Markov head corrects slot after slot, a confidence says how far to verify"
    paper = "2607.05147"
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
        from .drafter import DSparkDrafter
        from .store import load_dspark

        head, temperatures = load_dspark(checkpoint / HEAD, params, backbone.config.slots)
        check_belongs(
            checkpoint / HEAD,
            ("hidden_size", head.config.hidden_size, backbone.config.hidden_size),
            ("vocab_size", head.config.vocab_size, len(vocabulary)),
        )
        c = head.config
        if c.previous_size not in (vocabulary.target_size, len(vocabulary) + 1):
            raise UserError(
                f"{checkpoint / HEAD}: previous_size {c.previous_size} (target: {vocabulary.target_size}); "
                "use the head trained with it"
            )
        return DSparkDrafter(
            backbone,
            vocabulary,
            target.embedding,
            target.head,
            slots,
            head,
            sampled=params["draft"] == "sampled",
            threshold=params["threshold"],
            temperatures=temperatures,
        )

    def vllm_draft(self, checkpoint: Path | None, params: Mapping[str, Any]) -> VLLMDraft:
        """Raises UserError for a threshold: vLLM's hook takes tokens only, and would verify whole blocks in silence."""
        if params["threshold"] > 0:
            raise UserError(
                f"dspark@threshold={params['threshold']:g}: vLLM verifies whole blocks; leave it out, "
                "or use --engine torch"
            )
        return super().vllm_draft(checkpoint, params)

    def published(self) -> PublishedForm:
        from .published import DSparkForm

        return DSparkForm()

    def objective(
        self,
        backbone: BlockBackbone,
        tables: Tables,
        vocabulary: Vocabulary,
        scale: FeatureScale,
        params: Mapping[str, Any],
    ) -> Objective:
        from .heads import DSparkConfig
        from .objective import DSparkObjective
        from .options import training_options

        d = backbone.config.hidden_size
        config = DSparkConfig(
            d,
            len(vocabulary),
            _previous_size(vocabulary),
            markov_rank=params["rank"] or _default_rank(d),
            markov_head_type=params["head"] or "vanilla",
        )
        return DSparkObjective(backbone, tables, vocabulary, scale, config, options=training_options(params))

    def save(self, folder: Path, objective: Objective, tables: Tables) -> None:
        from .objective import DSparkObjective
        from .store import save_dspark

        assert isinstance(objective, DSparkObjective)
        super().save(folder, objective, tables)
        save_dspark(folder / HEAD, objective.dspark, objective.options, objective.temperatures)


def _default_rank(d: int) -> int:
    """The published 256 from d = 2560 up; narrower targets get a narrower head."""
    return min(256, max(64, d // 10))


def _previous_size(vocabulary: Vocabulary) -> int:
    """Only an anchor can lie outside a pruned vocabulary, and rare anchors teach little: they share one row."""
    return len(vocabulary) + 1 if vocabulary.pruned else len(vocabulary)


METHOD = DSpark()
