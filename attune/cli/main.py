"""The command `attune`: finds the verb, imports only that verb, and turns errors into one line for a person."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import typer

import attune
from attune.errors import AttuneError, did_you_mean

# verb: "module — help". A module has a Typer `app` (a verb with sub-verbs) or a function `main`.
# A verb whose module is not there is not offered.
VERBS: dict[str, str] = {
    "chat": "attune.cli.chat — Talk with a system.",
    "reply": "attune.cli.reply — Answer one context, or a file of them.",
    "serve": "attune.cli.serve — Serve the HTTP API and the web chat.",
    "explain": "attune.cli.explain — Show what a system felt, recalled and decided.",
    "label": "attune.cli.label — Label each line of a file: 32 emotions, 8 intents, neutral.",
    "setup": "attune.cli.setup — Fetch the parts that live outside this package.",
    "doctor": "attune.cli.doctor — Say what is installed, found and missing, and how to mend it.",
    "ls": "attune.cli.ls — List what is registered: systems, recipes, readers, metrics, parts, …",
    "data": "attune.cli.data — Check, read and fetch corpora.",
    "stats": "attune.cli.stats — Count emotions, intents and words of a corpus.",
    "knowledge": "attune.cli.knowledge — Build and ask the concept index.",
    "train": "attune.cli.train — Train a system by its recipe.",
    "export": "attune.cli.export — Write what a run needs to talk without torch.",
    "card": "attune.cli.card — Write the model card of a run.",
    "evaluate": "attune.cli.evaluate — Score a run on a split.",
    "score": "attune.cli.score — Score a file of replies, also other people's.",
    "compare": "attune.cli.compare — Put the scores of several runs side by side.",
    "audit": "attune.cli.audit — Check that a system sees nothing it must not see.",
    "results": "attune.cli.results — Write docs/RESULTS.md from results/.",
    "examples": "attune.cli.examples — Answer the papers' case studies, beside their replies.",
}

# The class below Typer's public BadParameter is what every wrong use of the command line raises.
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]


def run(argv: Sequence[str] | None = None) -> None:
    """Entry point of the script `attune`; always ends in SystemExit."""
    arguments = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    verb = next((word for word in arguments if not word.startswith("-")), None)
    leading = arguments if verb is None else arguments[: arguments.index(verb)]
    debug = "--debug" in leading or os.environ.get("ATTUNE_DEBUG", "0") not in ("", "0")
    try:
        code = _invoke(verb, arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains when it closes stdout
        code = 141
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    except (AttuneError, OSError, ModuleNotFoundError, _UsageError) as error:
        if debug or (isinstance(error, ModuleNotFoundError) and (error.name or "attune").startswith("attune")):
            raise
        print(f"attune: error: {_one_line(error, verb)}", file=sys.stderr)
        code = 2
    sys.exit(code)


def offered() -> dict[str, tuple[str, str]]:
    """The verbs that are there: name → (module, help)."""
    table = {verb: tuple(entry.split(" — ", 1)) for verb, entry in VERBS.items()}
    return {verb: (module, help) for verb, (module, help) in table.items() if importlib.util.find_spec(module)}


def _invoke(verb: str | None, arguments: list[str]) -> int:
    verbs = offered()
    if verb is not None and verb not in verbs:
        raise AttuneError(did_you_mean(verb, verbs, "verb"))
    app = typer.Typer(name="attune", add_completion=False, pretty_exceptions_enable=False, help=attune.__doc__)
    app.callback()(_options)
    for name, (module, help) in verbs.items():
        if name == verb:
            _add(app, name, module, help)
        else:  # enough for --help, which imports no verb
            app.command(name, help=help)(_never)
    result = app(arguments, prog_name="attune", standalone_mode=False)
    return result if isinstance(result, int) else 0


def _add(app: typer.Typer, name: str, module: str, help: str) -> None:
    loaded = importlib.import_module(module)
    if hasattr(loaded, "app"):
        app.add_typer(loaded.app, name=name, help=help)
    else:
        app.command(name)(loaded.main)


def _never() -> None:
    raise AssertionError("only the verb that was asked for is called")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"attune {attune.__version__}")
        raise typer.Exit


def _options(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version."),
    debug: bool = typer.Option(False, "--debug", help="Show the traceback of an error (also: ATTUNE_DEBUG=1)."),
) -> None:
    """What stands before the verb."""


def _one_line(error: BaseException, verb: str | None) -> str:
    if isinstance(error, ModuleNotFoundError):
        return f"this needs the package '{error.name}', which is not installed; {_how_to_install(error.name or '')}"
    if isinstance(error, OSError):
        message = ": ".join(str(part) for part in (error.filename, error.strerror) if part) or str(error)
    elif isinstance(error, _UsageError):
        see = f"attune {verb} --help" if verb else "attune --help"
        message = f"{error.format_message()} (see: {see})"  # type: ignore[attr-defined]
    else:
        message = str(error)
    return re.sub(r"\s*\n\s*", " ", message.strip())


def _how_to_install(module: str) -> str:
    """The command that brings a missing module: its extra if one lists it, else the package itself."""
    package = {"sklearn": "scikit-learn", "yaml": "pyyaml"}.get(module.split(".")[0], module.split(".")[0])
    for extra, needs in extras().items():
        if any(_same(package, need) for need in needs):
            return f"run: {install_command(extra)}"
    return f"run: {sys.executable} -m pip install {package.replace('_', '-')}"


def install_command(extra: str | None = None) -> str:
    """The command that installs the core or an extra: from the index, or from the source tree that is in use."""
    tree, bracket = Path(attune.__file__).parents[1], f"[{extra}]" if extra else ""
    if (tree / "pyproject.toml").is_file():
        return f"{sys.executable} -m pip install -c '{tree}/constraints.txt' -e '{tree}{bracket}'"
    return f"{sys.executable} -m pip install 'attune-dialogue{bracket}'"


def extras() -> dict[str, list[str]]:
    """Extra → the packages it brings, as the installed distribution declares them."""
    from importlib import metadata

    found: dict[str, list[str]] = {}
    try:
        requirements = metadata.requires("attune-dialogue") or []
    except metadata.PackageNotFoundError:  # used from the source tree
        requirements = []
    for requirement in requirements:
        name = re.match(r"[\w.-]+", requirement)
        extra = re.search(r"extra == [\"']([\w-]+)[\"']", requirement)
        if name and extra:
            found.setdefault(extra[1], []).append(name[0])
    return found


def _same(one: str, other: str) -> bool:
    return re.sub(r"[-_.]+", "-", one).lower() == re.sub(r"[-_.]+", "-", other).lower()


if __name__ == "__main__":
    run()
