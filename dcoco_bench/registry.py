"""Finds the methods: built in, in a `--plugin-dir`, and in other packages (entry points `dcoco_bench.methods`)."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

from dcoco_bench.errors import UserError, nearest
from dcoco_bench.method import Method, MethodSpec

METHODS_PACKAGE = "dcoco_bench.methods"
ENTRY_POINTS = "dcoco_bench.methods"
BASELINE = "vanilla"


@dataclass(frozen=True)
class MethodEntry:
    """A method and the folder that holds its card and checkpoints. Importing waits until the method is asked for."""

    name: str
    origin: str  # `built in`, the plug-in folder's name, or the package of the entry point
    load: Callable[[], ModuleType | Method]

    @cached_property
    def module(self) -> ModuleType | Method:
        try:
            return self.load()
        except UserError:
            raise
        except Exception as error:  # a plug-in may fail in any way, and its name is what the user needs
            reason = (str(error).strip() or "no message").splitlines()[0]
            raise UserError(
                f"method {self.name!r} ({self.origin}) cannot be imported: {type(error).__name__}: {reason}; "
                "mend or remove the plug-in (--debug shows where it fails)"
            ) from error

    @cached_property
    def method(self) -> Method:
        found = self.module if isinstance(self.module, Method) else getattr(self.module, "METHOD", None)
        if not isinstance(found, Method):
            raise UserError(
                f"method {self.name!r} ({self.origin}) exports no METHOD; its __init__.py needs METHOD = YourMethod()"
            )
        return found

    @cached_property
    def folder(self) -> Path | None:
        module = self.module
        if isinstance(module, Method):
            module = sys.modules[type(module).__module__]
        return Path(module.__file__).parent if module.__file__ else None

    def checkpoints(self) -> list[str]:
        """Labels of the backbones that it has a checkpoint for."""
        found = self.folder.glob("checkpoints/*/config.json") if self.folder else ()
        return sorted(file.parent.name for file in found)

    def own_checkpoint(self, backbone: str) -> Path | None:
        """`checkpoints/<backbone>/` beside the method, where there is one."""
        path = self.folder / "checkpoints" / backbone if self.folder else None
        return path if path and (path / "config.json").is_file() else None


class Registry:
    """All methods that can be named in a run. Later sources win over earlier ones under the same name."""

    def __init__(self, plugin_dir: Path | None = None) -> None:
        if plugin_dir and not plugin_dir.is_dir():
            raise UserError(f"--plugin-dir {plugin_dir}: no such folder; give one whose subfolders are methods")
        self.plugin_dir = plugin_dir

    @property
    def suite_dirs(self) -> tuple[Path, ...]:
        """Where suites are found besides the built-in ones."""
        return (self.plugin_dir,) if self.plugin_dir else ()

    @cached_property
    def entries(self) -> dict[str, MethodEntry]:
        found = [*_built_in(), *_other_packages(), *_plugins(self.plugin_dir)]
        entries = {entry.name: entry for entry in found}
        names = sorted(entries, key=lambda name: (name != BASELINE, name))
        return {name: entries[name] for name in names}

    def entry(self, name: str) -> MethodEntry:
        if name not in self.entries:
            raise UserError(f"unknown method {name!r}; {nearest(name, list(self.entries))}")
        return self.entries[name]

    def get_method(self, name: str) -> Method:
        return self.entry(name).method

    def canonical(self, spec: str) -> str:
        """The spec as it stands in a cell, after checking name and parameters. Raises UserError."""
        parsed = MethodSpec.parse(spec)
        parsed.resolve(self.get_method(parsed.name).params)
        return str(parsed)

    def methods_with_checkpoint(self, backbone: str) -> list[str]:
        """The baseline, and every method that has a checkpoint of its own for this backbone."""
        return [name for name, e in self.entries.items() if name == BASELINE or e.own_checkpoint(backbone)]

    def checkpoint_for(self, spec: str, backbone: str, overrides: Mapping[str, Path] | None = None) -> Path | None:
        """The draft checkpoint: the user's for this very spec (an ablation has weights of its own), else the user's
        for the method, else the method's own; None for a method that needs none."""
        name = MethodSpec.parse(spec).name
        entry = self.entry(name)
        for key in (spec, name):
            if overrides and key in overrides:
                path = overrides[key]
                if not (path / "config.json").is_file():
                    raise UserError(
                        f"--checkpoint {key}={path}: no config.json there; give a draft checkpoint's folder"
                    )
                return path
        if not entry.method.needs_checkpoint:
            return None
        own = entry.own_checkpoint(backbone)
        if own is None:
            raise UserError(
                f"method {name!r} has no checkpoint for backbone {backbone!r}; "
                f"train one (dcoco-bench train --method {name}) or give --checkpoint {name}=FOLDER"
            )
        return own


def get_method(name: str, plugin_dir: Path | None = None) -> Method:
    return Registry(plugin_dir).get_method(name)


def _built_in() -> Iterator[MethodEntry]:
    package = importlib.import_module(METHODS_PACKAGE)
    for info in pkgutil.iter_modules(package.__path__):
        if info.ispkg:
            name = f"{METHODS_PACKAGE}.{info.name}"
            yield MethodEntry(info.name, "built in", partial(importlib.import_module, name))


def _other_packages() -> Iterator[MethodEntry]:
    for point in entry_points(group=ENTRY_POINTS):
        yield MethodEntry(point.name, point.dist.name if point.dist else "entry point", point.load)


def _plugins(folder: Path | None) -> Iterator[MethodEntry]:
    for init in sorted(folder.glob("*/__init__.py")) if folder else ():
        yield MethodEntry(init.parent.name, f"plug-in folder {init.parent.parent.name}", partial(_import, init))


def _import(init: Path) -> ModuleType:
    """Import a plug-in folder under a name of its own, so that it can shadow nothing."""
    name = f"dcoco_bench_plugin_{init.parent.name}"
    if name in sys.modules and sys.modules[name].__file__ == str(init):
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, init, submodule_search_locations=[str(init.parent)])
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module
