"""What every method over the block backbone shares: its checkpoint, its draft length, its layout."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from dcoco_bench.drafting.layout import Layout
from dcoco_bench.errors import UserError
from dcoco_bench.method import Method, Param, VLLMDraft

if TYPE_CHECKING:
    from dcoco_bench.drafting.backbone import BlockBackbone
    from dcoco_bench.drafting.block_drafter import BlockDrafter
    from dcoco_bench.drafting.published import PublishedForm
    from dcoco_bench.drafting.vocabulary import Vocabulary
    from dcoco_bench.training.objective import Objective, Tables


def at_least_one(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError("must be at least 1")
    return value


BLOCK_PARAMS: Mapping[str, Param] = {
    "n": Param(
        None,
        at_least_one,
        "n=4 verifies the block's first 4 draft tokens; the checkpoint's N when not said",
        serving_only=True,
    ),
    "layout": Param(
        None, Layout, "layout=fill-in or layout=anchor-first, for a checkpoint without a layout flag", serving_only=True
    ),
}


class BlockMethod(Method):
    """Subclasses override `build` (their drafter) and `objective` (their loss), and `save` when they have a head."""

    params: ClassVar[Mapping[str, Param]] = BLOCK_PARAMS

    def drafter(self, checkpoint: Path | None, target: Any, params: Mapping[str, Any]) -> BlockDrafter:
        """Raises UserError when the checkpoint does not fit the target, or n its block."""
        from dcoco_bench.drafting.checkpoint import check_fits, load

        assert checkpoint is not None
        backbone, vocabulary = load(checkpoint, params["layout"])
        config, slots = backbone.config, params["n"]
        check_fits(checkpoint, config, **target.shape)
        if slots is not None and slots > config.slots:
            raise UserError(
                f"{self.name}@n={slots}: the checkpoint's block of {config.block_size} ({config.layout.value}) "
                f"drafts {config.slots} tokens; say n={config.slots} or less"
            )
        return self.build(checkpoint, backbone, vocabulary, target, slots, params)

    def selection(self, checkpoint: str | Path, tables: Any, params: Mapping[str, Any]) -> BlockDrafter:
        """The drafter without its backbone, for an engine that runs the backbone itself: only `choose` may be called.

        `tables` has the target's `embedding` [V, d] and the draft's `head` rows [V', d].
        """
        import torch

        from dcoco_bench.drafting import checkpoint as store
        from dcoco_bench.drafting.backbone import BlockBackbone
        from dcoco_bench.drafting.config import DraftConfig

        folder = Path(checkpoint)
        config = DraftConfig.read(folder, params["layout"])
        with torch.device("meta"):
            backbone = BlockBackbone(config)
        return self.build(folder, backbone, store.read_vocabulary(folder, config), tables, params["n"], params)

    def build(
        self,
        checkpoint: Path,
        backbone: BlockBackbone,
        vocabulary: Vocabulary,
        target: Any,
        slots: int | None,
        params: Mapping[str, Any],
    ) -> BlockDrafter:
        """The method's drafter over a loaded backbone."""
        from dcoco_bench.drafting.block_drafter import BlockDrafter

        return BlockDrafter(backbone, vocabulary, target.embedding, target.head, slots)

    def vllm_draft(self, checkpoint: Path | None, params: Mapping[str, Any]) -> VLLMDraft:
        """Through our plug-in: vLLM runs the backbone, the method chooses. vLLM feeds blocks of 1+N inputs, so an
        anchor-first draft gives one token less than its block could."""
        from dcoco_bench.drafting.config import DraftConfig

        assert checkpoint is not None
        config = DraftConfig.read(checkpoint, params["layout"])
        most = config.block_size - 1
        if params["n"] is not None and params["n"] > most:
            raise UserError(f"{self.name}@n={params['n']}: vLLM drafts {most} tokens of a block of {config.block_size}")
        if params.get("draft") == "sampled":
            raise UserError(f"{self.name}@draft=sampled: drafts are a point mass inside vLLM; use --engine torch")
        return VLLMDraft("dflash", params["n"] or most, plugin=True)

    def published(self) -> PublishedForm | None:
        """How its checkpoints are spelt outside; None where that is not known."""
        return None

    def save(self, folder: Path, objective: Objective, tables: Tables) -> None:
        """Write what was trained as a checkpoint that `drafter` and vLLM's `method: dflash` load."""
        from dcoco_bench.drafting import checkpoint

        served = objective.serving_backbone()
        served.config = served.config.model_copy(update={"method": self.name})  # a --from backbone bears another's
        checkpoint.save(folder, served, objective.vocabulary, tables.head)
