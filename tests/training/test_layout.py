"""The single most error-prone fact of this family: a draft read in the other layout raises no error, it just fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from dcoco_bench.drafting.layout import Layout
from dcoco_bench.methods.dflash import METHOD
from dcoco_bench.training.trainer import Settings, Trainer
from tests.methods import cases


@pytest.mark.parametrize(("trained", "other"), [tuple(Layout), tuple(reversed(Layout))])
def test_a_draft_earns_in_its_own_layout_and_next_to_nothing_in_the_other(
    tmp_path: Path, trained: Layout, other: Layout
) -> None:
    sequences = cases.chains(12)
    made = cases.objective(METHOD, "", sequences, layout=trained)
    settings = Settings(steps=200, sequences=8, anchors=12, lr=5e-3, matrix_lr=2e-2)
    trainer = Trainer(made, sequences, sequences, tmp_path, settings)
    own = trainer.run(lambda row: None)
    assert own.reached[0] / own.rounds > 0.8  # an answer's last rounds have little left to accept

    made.config = made.config.model_copy(update={"layout": other})
    misread = trainer.evaluate(sequences)
    assert misread.reached[0] / misread.rounds < 0.15  # one token in twelve is right by luck
    assert misread.reached[1] == 0
