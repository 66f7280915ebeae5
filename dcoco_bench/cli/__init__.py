"""The command line: parse, call, print. Every error that a user can mend is one line on stderr and exit code 2."""

from __future__ import annotations

import sys
import traceback

import typer

from dcoco_bench.cli import convert, demo, deploy, gate, interop, lists, results, run, train
from dcoco_bench.errors import UserError

ClickError = typer.BadParameter.__mro__[2]  # typer's own ClickException, which it does not export

app = typer.Typer(
    name="dcoco-bench",
    help="Which speculative drafter pays? Parallel drafters and their correctors, measured side by side.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _root(debug: bool = typer.Option(False, "--debug", hidden=True, help="Show tracebacks.")) -> None:
    """Options of all commands."""


run.register(app)
results.register(app)
lists.register(app)
train.register(app)
convert.register(app)
deploy.register(app)
gate.register(app)
interop.register(app)
demo.register(app)


def main(argv: list[str] | None = None) -> None:
    """The console script. Exit codes: 0 good, 1 a cell failed, 2 bad input, 130 interrupted."""
    arguments = sys.argv[1:] if argv is None else argv
    debug = "--debug" in arguments
    arguments = [a for a in arguments if a != "--debug"]  # accepted anywhere on the line
    try:
        code = app(arguments, prog_name="dcoco-bench", standalone_mode=False)
    except UserError as error:
        if debug:
            traceback.print_exc()
        _fail(str(error))
    except KeyboardInterrupt:
        print("interrupted; what is finished is kept, go on with: dcoco-bench run --resume", file=sys.stderr)
        raise SystemExit(130) from None
    except typer.Abort:
        raise SystemExit(130) from None
    except BrokenPipeError:  # `dcoco-bench list suites | head`
        sys.stderr.close()
        raise SystemExit(0) from None
    except Exception as error:
        if not isinstance(error, ClickError):
            if debug:
                raise
            where = f"{type(error).__name__}: {error}".splitlines()[0]
            print(f"error: internal: {where} (a bug of dcoco-bench; --debug shows where)", file=sys.stderr)
            raise SystemExit(3) from None
        usage: str = error.format_message()  # type: ignore[attr-defined]
        _fail(f"{usage.rstrip('.')}; see --help".replace("\n", " "))
    raise SystemExit(code if isinstance(code, int) else 0)


def _fail(text: str) -> None:
    print(f"error: {' '.join(text.split())}", file=sys.stderr)
    raise SystemExit(2)
