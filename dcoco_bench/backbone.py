"""Backbones: the target models, as data. A known name, or a local Hugging Face folder."""

from __future__ import annotations

import json
import tomllib
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, ValidationError

from dcoco_bench.cells import Frozen, PositiveInt
from dcoco_bench.errors import UserError, nearest

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Thinking = Literal["off", "on"]


class Backbone(Frozen):
    """One target model. `name` is what `--backbone` and a cell hold; for a local folder, its full path."""

    name: str
    source: Literal["embedded", "hub", "local"]
    model: str  # hub id, or the local folder
    licence: str
    context_length: PositiveInt  # tokens, prompt and output together
    parameters: PositiveInt | None = None
    active_parameters: PositiveInt | None = None  # read for one token; None = all
    thinking: Annotated[tuple[Thinking, ...], Field(min_length=1)] = ("off",)
    mask_token_id: Annotated[int, Field(ge=0)] | None = None  # for new drafts; a draft's own config wins over it
    mask_token: str | None = None  # its text form, None where it has none
    drafts: dict[str, str] = Field(default_factory=dict)  # method -> public draft checkpoint on the hub

    @property
    def label(self) -> str:
        """Short name for tables and for a method's `checkpoints/<label>/` folder."""
        return Path(self.name).name if self.source == "local" else self.name

    def materialise(self) -> Path:
        """What to give to `from_pretrained`: a local folder, or for a hub model its id.

        The embedded model is prepared on the first call, in about half a minute. Raises UserError where that fails.
        """
        if self.source == "embedded":
            from dcoco_bench import embedded

            return embedded.prepare()
        return Path(self.model)

    def folder(self) -> Path:
        """Its weights and configuration on disk, fetched from the hub if need be. Raises UserError."""
        source = self.materialise()
        if source.is_dir():
            return source
        from huggingface_hub import snapshot_download

        try:
            return Path(snapshot_download(str(source), allow_patterns=["*.json", "*.safetensors"]))
        except Exception as error:  # no network, no such repository, terms not accepted: the hub's own words say which
            raise UserError(
                f"backbone {self.name!r} cannot be fetched ({_first_line(error)}); give a local folder"
            ) from None


def list_backbones() -> list[Backbone]:
    """Every built-in backbone, the embedded one first, then by name."""
    return sorted(_built_in().values(), key=lambda backbone: (backbone.source != "embedded", backbone.name))


def resolve_backbone(name_or_path: str) -> Backbone:
    """The built-in backbone of that name, else the Hugging Face folder at that path. Raises UserError."""
    known = _built_in().get(name_or_path)
    if known:
        return known
    folder = Path(name_or_path).expanduser()
    if (folder / "config.json").is_file():
        return _from_folder(folder.resolve())
    if folder.is_dir():
        raise UserError(f"backbone {name_or_path!r}: the folder has no config.json; give a Hugging Face model folder")
    names = [backbone.name for backbone in list_backbones()]
    raise UserError(f"unknown backbone {name_or_path!r}: no such name or folder; {nearest(name_or_path, names)}")


def load_tokenizer(backbone: Backbone) -> PreTrainedTokenizerBase:
    """The target's tokenizer with its chat template. Raises UserError where it cannot be read."""
    from transformers import AutoTokenizer

    source = backbone.materialise()
    try:
        return AutoTokenizer.from_pretrained(str(source), trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise UserError(
            f"backbone {backbone.name!r}: no tokenizer could be loaded from {str(source)!r} ({_first_line(error)}); "
            "check the network and the licence's access terms, or give a local folder"
        ) from None


@cache
def _built_in() -> dict[str, Backbone]:
    found = {}
    for file in files("dcoco_bench.backbones").iterdir():
        if file.name.endswith(".toml"):
            name = file.name.removesuffix(".toml")
            found[name] = Backbone(name=name, **tomllib.loads(file.read_text(encoding="utf-8")))
    return found


def _from_folder(folder: Path) -> Backbone:
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        return Backbone(
            name=str(folder),
            source="local",
            model=str(folder),
            licence="unknown",
            context_length=config["max_position_embeddings"],
            thinking=("off", "on") if "enable_thinking" in _chat_template(folder) else ("off",),
        )
    except KeyError as error:
        raise UserError(
            f"backbone {str(folder)!r}: config.json has no {error}; give the folder of a text-only causal LM"
        ) from None
    except (OSError, ValueError, TypeError, ValidationError) as error:
        raise UserError(
            f"backbone {str(folder)!r}: config.json is not usable ({_first_line(error)}); "
            "give a folder written by save_pretrained"
        ) from None


def _chat_template(folder: Path) -> str:
    own_file = folder / "chat_template.jinja"
    if own_file.is_file():
        return own_file.read_text(encoding="utf-8")
    config_file = folder / "tokenizer_config.json"
    config: dict[str, Any] = json.loads(config_file.read_text(encoding="utf-8")) if config_file.is_file() else {}
    return str(config.get("chat_template", ""))


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
