"""Prompts: the suites, their sources, choosing N of them, and rendering them for a target."""

from dcoco_bench.prompts.catalogue import get_suite, list_suites, resolve_suites
from dcoco_bench.prompts.loading import load_suite
from dcoco_bench.prompts.rendering import prompt_sha, render
from dcoco_bench.prompts.sets import Prompt, PromptSet
from dcoco_bench.prompts.suite import Suite
from dcoco_bench.prompts.warmup import warmup_prompts

__all__ = [
    "Prompt",
    "PromptSet",
    "Suite",
    "get_suite",
    "list_suites",
    "load_suite",
    "prompt_sha",
    "render",
    "resolve_suites",
    "warmup_prompts",
]
