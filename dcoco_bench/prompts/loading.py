"""A suite's prompts from the first source that has them: the user's folder, the hub, our own sample."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from dcoco_bench.errors import UserError
from dcoco_bench.prompts.catalogue import get_suite, sample_file
from dcoco_bench.prompts.hub import HubUnavailable, hub_rows
from dcoco_bench.prompts.rows import prompts_of, read_prompts, read_references
from dcoco_bench.prompts.sampling import sample
from dcoco_bench.prompts.sets import Prompt, PromptSet
from dcoco_bench.prompts.suite import HubForm, Suite

DATA_VARIABLE = "DCOCO_BENCH_DATA"


def load_suite(
    name: str,
    *,
    num_prompts: int | None = None,
    seed: int = 0,
    data_dir: Path | None = None,
    extra_dirs: Sequence[Path] = (),
) -> PromptSet:
    """`num_prompts` of the suite (None = all), the same for the same seed. Raises UserError.

    `data_dir`, else the folder in DCOCO_BENCH_DATA, is asked first.
    """
    if num_prompts is not None and num_prompts < 1:
        raise UserError(f"--num-prompts {num_prompts}: must be at least 1; leave it out for the whole suite")
    whole = _whole_suite(get_suite(name, extra_dirs), _data_folder(data_dir), extra_dirs)
    return replace(whole, prompts=sample(whole.prompts, num_prompts, seed), asked=num_prompts)


def _whole_suite(suite: Suite, folder: Path | None, extra_dirs: Sequence[Path]) -> PromptSet:
    reasons: list[str] = []
    if folder is None:
        reasons.append(f"data folder: none given (--data-dir or {DATA_VARIABLE})")
    elif (file := folder / f"{suite.name}.jsonl").is_file():
        references = read_references(folder / "refs" / file.name)
        found = tuple(read_prompts(suite, file, references))
        return PromptSet(suite, found, "data", len(found))
    else:
        reasons.append(f"data folder: {folder} has no {file.name}")
    if suite.hub is None:
        reasons.append("hub: the suite is not there")
    else:
        try:
            found = _from_hub(suite, suite.hub)
            return PromptSet(suite, found, "hub", len(found), fell_through=tuple(reasons))
        except HubUnavailable as unavailable:
            reasons.append(str(unavailable))
    if own := sample_file(suite.name, extra_dirs):
        found = tuple(read_prompts(suite, own))
        return PromptSet(suite, found, "sample", len(found), fell_through=tuple(reasons))
    reasons.append("sample: there is none")
    raise UserError(
        f"suite {suite.name!r}: no source of prompts ({'; '.join(reasons)}); "
        f"put {suite.name}.jsonl into a folder and give it with --data-dir or {DATA_VARIABLE}"
    )


def _from_hub(suite: Suite, hub: HubForm) -> tuple[Prompt, ...]:
    found = tuple(prompts_of(suite, hub_rows(hub), {}))
    if not found:
        raise HubUnavailable(f"hub data set {hub.id}: no rows in split {hub.split!r}")
    return found


def _data_folder(data_dir: Path | None) -> Path | None:
    given = data_dir or os.environ.get(DATA_VARIABLE) or None
    if given is None:
        return None
    folder = Path(given).expanduser()
    if not folder.is_dir():
        flag = "--data-dir" if data_dir else DATA_VARIABLE
        raise UserError(f"{flag} {folder}: no such folder; give one that holds <suite>.jsonl files")
    return folder
