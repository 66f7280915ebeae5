"""A suite as data: what its TOML file says about its prompts, their source and their licence."""

from __future__ import annotations

import tomllib
from typing import Annotated, Any, Literal, Protocol

from pydantic import Field, ValidationError, model_validator

from dcoco_bench.cells import Frozen, PositiveInt
from dcoco_bench.errors import UserError

Text = Annotated[str, Field(min_length=1)]
Reference = Literal["number", "boxed", "integer", "tests", "none"]
EXACT: tuple[Reference, ...] = ("number", "boxed", "integer")  # a final answer that is right or wrong by itself


class EmptyField(Frozen):
    """The template of rows whose `field` is empty."""

    field: Text
    template: Text


class HubForm(Frozen):
    """Where the rows are on the hub, and how a row becomes turns. `{field}` in a template is the row's field."""

    id: Text
    config: str | None = None
    split: str = "test"
    revision: str | None = None  # None = the newest
    files: tuple[Text, ...] = ()  # JSON lines inside the repository, where it has no split that loads by itself
    row_id: Text  # str.format with the row's fields and `row`, its number from 0
    template: str | None = None
    without: EmptyField | None = None
    turns_field: str | None = None  # the row's list of turns, verbatim

    @model_validator(mode="after")
    def _one_form(self) -> HubForm:
        if (self.template is None) == (self.turns_field is None):
            raise ValueError("give either template or turns_field")
        return self


class CategoryRule(Frozen):
    """A prompt's category: a field of its row or of refs/<suite>.jsonl, else a part of its id, else the suite's."""

    field: str | None = None
    id_part: Annotated[int, Field(ge=0)] | None = None  # place in the id split at "/"

    def of(self, prompt_id: str, row: dict[str, Any], reference: dict[str, Any]) -> str | None:
        if self.field:
            for source in (row, reference):
                if isinstance(value := source.get(self.field), str) and value:
                    return value
        parts = prompt_id.split("/")
        if self.id_part is not None and self.id_part < len(parts):
            return parts[self.id_part]
        return None


class Suite(Frozen):
    """`name` is the file's. `version` changes whenever the same name would stand for other prompts."""

    name: str
    title: Text
    version: PositiveInt
    category: Literal["math", "code", "general"]
    in_all: bool = False  # part of `--suite all`
    licence: Text
    redistributable: bool
    turns: Literal["single", "multi"] = "single"
    reference: Reference = "none"  # what an answer can be scored against
    source: Text
    notes: str = ""
    data_prompt_hash: Annotated[str, Field(pattern="^[0-9a-f]{16}$")] | None = None  # of the development file
    prompt_category: CategoryRule = CategoryRule()
    hub: HubForm | None = None


class TextFile(Protocol):
    """What `Path` and a resource of `importlib.resources` share."""

    @property
    def name(self) -> str: ...
    def read_text(self, encoding: str | None = None) -> str: ...


def read_suite(file: TextFile) -> Suite:
    """Raises UserError with the file, the key and the reason."""
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
        return Suite(**{"name": file.name.removesuffix(".toml")} | values)
    except ValidationError as error:
        detail = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in detail["loc"]) or "the file"
        raise UserError(
            f"suite file {file}: {key}: {detail['msg'].removeprefix('Value error, ')}; see suites/README.md"
        ) from None
    except (OSError, ValueError) as error:  # unreadable, not UTF-8, not TOML
        raise UserError(f"suite file {file}: not readable as TOML ({error}); mend or remove it") from None
