"""DFlash checkpoints of z-lab and speculators, and DeepSpec's: its DSpark with no Markov head (methods.md 3, 4.3)."""

from __future__ import annotations

from dcoco_bench.drafting.published import Published, PublishedForm

BARE_DSPARK = ("Qwen3DSparkModel", "DSparkDraftModel")


class DFlashForm(PublishedForm):
    architectures = ("DFlashDraftModel", "DFlashSpeculator")

    def reads(self, published: Published) -> bool:
        if published.architecture in BARE_DSPARK:
            return published.keys.get("markov_rank", 0) == 0
        return super().reads(published) and published.keys.get("projector_type") in (None, "dflash")
