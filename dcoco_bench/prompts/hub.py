"""Rows from the Hugging Face hub, through the optional package `datasets`. Without a network it gives up in seconds."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

from dcoco_bench.errors import UserError
from dcoco_bench.prompts.suite import HubForm

CONNECT_SECONDS = 3.0
PROXIES = ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")
_failed: dict[str, str] = {}  # data set, or "" for the whole hub -> why it is not asked again in this process
_FIELD = re.compile(r"\{(\w+)\}")


class HubUnavailable(Exception):
    """The hub cannot give the rows here; the text says why."""


def hub_rows(hub: HubForm) -> Iterator[tuple[str, dict[str, Any]]]:
    """(where it stands, {"id", "turns", and the hub's own fields}). Raises HubUnavailable before the first row."""
    table = _load(hub)
    for number, row in enumerate(table):
        where = f"hub data set {hub.id} row {number}"
        try:
            row_id = hub.row_id.format(**{**row, "row": number})
            turns = row[hub.turns_field] if hub.turns_field else [_fill(hub, row)]
        except (KeyError, IndexError, ValueError) as error:
            raise UserError(
                f"{where}: the suite file's fields do not fit ({error}; the row has {', '.join(row)}); mend the suite"
            ) from None
        yield where, {**row, "id": row_id, "turns": turns}


def _fill(hub: HubForm, row: Mapping[str, Any]) -> str:
    bare = hub.without
    template = bare.template if bare and not row[bare.field] else hub.template
    # Not str.format: templates hold \boxed{}, and filled-in texts hold braces.
    return _FIELD.sub(lambda field: str(row[field[1]]), template or "")


def _load(hub: HubForm) -> Any:
    if reason := _why_not() or _failed.get("") or _failed.get(hub.id):
        raise HubUnavailable(reason)
    os.environ.setdefault("HF_HUB_DOWNLOAD_TIMEOUT", "5")  # read by huggingface_hub when it is first imported
    from datasets import load_dataset

    try:
        if hub.files:
            at = f"@{hub.revision}" if hub.revision else ""
            urls = [f"hf://datasets/{hub.id}{at}/{file}" for file in hub.files]
            return load_dataset("json", data_files={hub.split: urls}, split=hub.split)
        return load_dataset(hub.id, hub.config, split=hub.split, revision=hub.revision)
    except Exception as error:  # network, access terms, a moved data set: all of them mean the next source
        text = (str(error).strip() or "no message").splitlines()[0]
        reason = f"hub data set {hub.id}: {type(error).__name__}: {text}"
        _failed["" if isinstance(error, ConnectionError | TimeoutError) else hub.id] = reason
        raise HubUnavailable(reason) from None


def _why_not() -> str | None:
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"):
        if os.environ.get(name, "").upper() in ("1", "ON", "YES", "TRUE"):
            return f"hub: {name} is set"
    if find_spec("datasets") is None:
        return "hub: the package `datasets` is not installed (pip install dcoco-bench[hub])"
    return unreachable(os.environ.get("HF_ENDPOINT", "https://huggingface.co"))


@cache
def unreachable(endpoint: str) -> str | None:
    """Why no connection can be made, found out once per process; None where it can. A proxy stands for the hub."""
    proxy = next((value for name in PROXIES if (value := os.environ.get(name))), None)
    parts = urlsplit(proxy or endpoint)
    host, port = parts.hostname or "", parts.port or (80 if parts.scheme == "http" else 443)
    failure: list[str] = [f"no answer in {CONNECT_SECONDS:g} s"]

    def connect() -> None:
        try:
            socket.create_connection((host, port), timeout=CONNECT_SECONDS).close()
            failure.clear()
        except OSError as error:
            failure[:] = [error.strerror or str(error)]

    # In a thread, because the time-out of a socket does not hold for the look-up of its name.
    thread = Thread(target=connect, daemon=True)
    thread.start()
    thread.join(CONNECT_SECONDS)
    return f"hub: {host} cannot be reached ({failure[0]})" if failure else None
