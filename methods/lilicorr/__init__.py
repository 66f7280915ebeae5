"""LiLiCorr: a small transformer over the candidate lattice, neighbours matched by cosine (arXiv 2608.20530)."""

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

HEAD = "lilicorr"  # subfolder of the checkpoint, and the published tensors' prefix


class LiLiCorrMethod(BlockMethod):
    name = "lilicorr"
    summary = "parallel drafter; a transformer over all candidates, neighbours matched by cosine, a greedy walk"
    paper = "2608.20530"
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
        from .drafter import LiLiCorrDrafter
        from .store import load_lilicorr

        head, k = load_lilicorr(checkpoint / HEAD, params)
        c, b = head.config, backbone.config
        check_belongs(
            checkpoint / HEAD,
            ("hidden_size", c.hidden_size, b.hidden_size),
            ("block_size", c.block_size, b.block_size),
            ("slots", c.slots, b.slots),
        )
        check_k(self.name, k, vocabulary)
        sampled = params["draft"] == "sampled"
        return LiLiCorrDrafter(backbone, vocabulary, target.embedding, target.head, slots, head, k=k, sampled=sampled)

    def vllm_draft(self, checkpoint: Path | None, params: Mapping[str, Any]) -> VLLMDraft:
        """vLLM's own speculator needs a GPU, and our plug-in does not see the target's features that the head reads."""
        raise UserError("lilicorr is not served by the vllm engine here; use --engine torch")

    def published(self) -> PublishedForm:
        from .published import LiLiCorrForm

        return LiLiCorrForm()

    def objective(
        self,
        backbone: BlockBackbone,
        tables: Tables,
        vocabulary: Vocabulary,
        scale: FeatureScale,
        params: Mapping[str, Any],
    ) -> Objective:
        from .config import LiLiCorrConfig
        from .objective import LiLiCorrObjective
        from .options import HEADS, SCALE, WIDTH, K, training_options

        k, width = params["k"] or min(K, len(vocabulary)), params["width"] or WIDTH
        check_k(self.name, k, vocabulary)
        if width % HEADS:
            raise UserError(f"lilicorr@width={width}: must be a multiple of {HEADS}, the number of heads")
        config = LiLiCorrConfig(
            backbone.config.hidden_size,
            backbone.config.block_size,
            backbone.config.slots,
            lilicorr_candidate_topk=k,
            lilicorr_hidden_size=width,
            lilicorr_num_heads=HEADS,
            lilicorr_factor_dim=width,
            lilicorr_logit_scale=params["scale"] or SCALE,
            rms_norm_eps=backbone.config.rms_norm_eps,
        )
        return LiLiCorrObjective(backbone, tables, vocabulary, scale, config, options=training_options(params))

    def save(self, folder: Path, objective: Objective, tables: Tables) -> None:
        from .objective import LiLiCorrObjective
        from .store import save_lilicorr

        assert isinstance(objective, LiLiCorrObjective)
        super().save(folder, objective, tables)
        save_lilicorr(folder / HEAD, objective.lilicorr, objective.options)


METHOD = LiLiCorrMethod()
