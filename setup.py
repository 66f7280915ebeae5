"""Only what pyproject.toml cannot say: `methods/` and `suites/` install inside `dcoco_bench`, whatever they hold."""

from setuptools import find_packages, setup

setup(
    packages=[
        *find_packages(include=["dcoco_bench", "dcoco_bench.*"]),
        "dcoco_bench.methods",
        *(f"dcoco_bench.methods.{name}" for name in find_packages("methods")),
        "dcoco_bench.suites",
    ],
)
