"""DFlash2: DFlash with a selector over its candidates (z-lab, package `dflash` 0.1.0; methods.md 7)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dcoco_bench.drafting.block_method import BlockMethod
from dcoco_bench.drafting.head_store import check_belongs
from dcoco_bench.drafting.params import check_k
from dcoco_bench.errors import UserError
from dcoco_bench.method import VLLMDraft

from .options import PARAMS

if TYPE_CHECKING:
    from dcoco_bench.drafting.backbone import BlockBackbone
    from dcoco_bench.drafting.block_drafter import BlockDrafter
    from dcoco_bench.drafting.published import PublishedForm
    from dcoco_bench.drafting.vocabulary import Vocabulary
    from dcoco_bench.training.objective import Objective, Tables
    from dcoco_bench.training.scaling import FeatureScale

HEAD = "candidate_selector"  # subfolder of the checkpoint, and the published tensors' prefix


class DFlash2(BlockMethod):
    name = "dflash2"
    summary = "parallel drafter; a bilinear score of neighbouring candidates from two vocabulary tables, a greedy walk"
    paper = ""  # a blog post and a package
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
        from dcoco_bench.drafting.checkpoint import read_tensors

        from .convs import load_convs
        from .drafter import DFlash2Drafter
        from .store import load_selector

        selector, k = load_selector(checkpoint / HEAD, params)
        check_belongs(
            checkpoint / HEAD,
            ("hidden_size", selector.config.hidden_size, backbone.config.hidden_size),
            ("vocab_size", selector.config.vocab_size, len(vocabulary)),
        )
        check_k(self.name, k, vocabulary)
        return DFlash2Drafter(
            load_convs(backbone, read_tensors(checkpoint)),
            vocabulary,
            target.embedding,
            target.head,
            slots,
            selector,
            k=k,
            sampled=params["draft"] == "sampled",
        )

    def vllm_draft(self, checkpoint: Path | None, params: Mapping[str, Any]) -> VLLMDraft:
        from dcoco_bench.drafting.checkpoint import read_tensors

        assert checkpoint is not None
        if any("_conv." in name for name in read_tensors(checkpoint)):
            raise UserError(f"{checkpoint} has convolutions, which vLLM's backbone lacks; use --engine torch")
        return super().vllm_draft(checkpoint, params)

    def published(self) -> PublishedForm:
        from .published import DFlash2Form

        return DFlash2Form()

    def objective(
        self,
        backbone: BlockBackbone,
        tables: Tables,
        vocabulary: Vocabulary,
        scale: FeatureScale,
        params: Mapping[str, Any],
    ) -> Objective:
        from .head import SelectorConfig
        from .objective import DFlash2Objective
        from .options import RANK, K, training_options

        config = SelectorConfig(backbone.config.hidden_size, len(vocabulary), params["rank"] or RANK)
        k = params["k"] or min(K, len(vocabulary))
        check_k(self.name, k, vocabulary)
        return DFlash2Objective(backbone, tables, vocabulary, scale, config, k=k, options=training_options(params))

    def save(self, folder: Path, objective: Objective, tables: Tables) -> None:
        from .objective import DFlash2Objective
        from .store import save_selector

        assert isinstance(objective, DFlash2Objective)
        super().save(folder, objective, tables)
        save_selector(folder / HEAD, objective.candidate_selector, objective.k, objective.options)


METHOD = DFlash2()
