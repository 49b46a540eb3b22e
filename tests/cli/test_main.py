"""The command line as a person meets it: quick help, one-line errors, the right exit codes."""

from __future__ import annotations

import os
import subprocess
import sys
import types
from collections.abc import Callable
from importlib.machinery import ModuleSpec

import pytest
import typer

import attune
from attune.cli import main
from attune.errors import AttuneError


def attune_command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "attune.cli.main", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "120", "ATTUNE_DEBUG": "0", **environment},
        timeout=60,
    )


@pytest.fixture
def verb(monkeypatch: pytest.MonkeyPatch):
    """Puts a function of the test in the place of a verb."""

    def put(function: Callable[[], None] | typer.Typer, name: str = "probe") -> None:
        module = types.ModuleType(f"attune.cli.{name}")
        setattr(module, "app" if isinstance(function, typer.Typer) else "main", function)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        module.__spec__ = ModuleSpec(module.__name__, None)
        monkeypatch.setitem(main.VERBS, name, f"{module.__name__} — A verb of the test.")

    return put


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main.run(list(arguments))
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_help_lists_every_verb_that_is_there() -> None:
    done = attune_command("--help")
    assert done.returncode == 0
    for name in main.offered():
        assert name in done.stdout


def test_help_is_quick_and_imports_neither_torch_nor_numpy() -> None:
    code = (
        "import sys; from attune.cli.main import run\n"
        "try: run(['--help'])\n"
        "except SystemExit: print(sorted({'torch', 'numpy', 'transformers'} & set(sys.modules)), file=sys.stderr)"
    )
    seconds: dict[str, list[float]] = {code: [], "import typer.rich_utils": []}  # what draws any program's help
    for _ in range(3):
        for program, taken in seconds.items():
            before = os.times()
            done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
            after = os.times()
            taken.append(after.children_user + after.children_system - before.children_user - before.children_system)
            assert done.stderr.strip() == ("[]" if program is code else "")
    ours, least = (min(taken) for taken in seconds.values())
    assert ours < max(0.3, 1.5 * least), "0.3 s, but on a slow machine not much more than it must be"


def test_the_version_is_printed() -> None:
    done = attune_command("--version")
    assert (done.returncode, done.stdout) == (0, f"attune {attune.__version__}\n")


def test_an_unknown_verb_is_answered_with_the_nearest_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("docter") == 2
    shown = capsys.readouterr().err
    assert shown.startswith("attune: error: unknown verb 'docter'; did you mean 'doctor'?")
    assert shown.count("\n") == 1


def test_a_verb_whose_module_is_missing_is_not_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(main.VERBS, "later", "attune.cli.not_written — Later.")
    assert "later" not in main.offered()
    assert run("later") == 2


def test_an_unknown_option_is_one_line_and_names_the_help(verb, capsys: pytest.CaptureFixture[str]) -> None:
    verb(lambda: None)
    assert run("probe", "--nonsense") == 2
    shown = capsys.readouterr().err
    assert "--nonsense" in shown
    assert "attune probe --help" in shown
    assert shown.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (AttuneError("file.csv:3: empty\nrow"), "attune: error: file.csv:3: empty row\n"),
        (PermissionError(13, "Permission denied", "out.json"), "attune: error: out.json: Permission denied\n"),
    ],
)
def test_an_error_is_one_line_without_traceback(
    verb, capsys: pytest.CaptureFixture[str], error: Exception, shown: str
) -> None:
    def fail() -> None:
        raise error

    verb(fail)
    assert run("probe") == 2
    assert capsys.readouterr().err == shown


def test_a_missing_package_is_answered_with_the_command_that_installs_its_extra(
    verb, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise ModuleNotFoundError("No module named 'sklearn.metrics'", name="sklearn.metrics")

    verb(fail)
    assert run("probe") == 2
    shown = capsys.readouterr().err
    assert shown.startswith("attune: error: this needs the package 'sklearn.metrics', which is not installed; run: ")
    assert shown.endswith("[train]'\n")


def test_debug_shows_the_traceback(verb, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise AttuneError("no")

    verb(fail)
    with pytest.raises(AttuneError):
        main.run(["--debug", "probe"])
    monkeypatch.setenv("ATTUNE_DEBUG", "1")
    with pytest.raises(AttuneError):
        main.run(["probe"])


def test_a_bug_keeps_its_traceback(verb) -> None:
    def fail() -> None:
        _ = 1 / 0

    verb(fail)
    with pytest.raises(ZeroDivisionError):
        main.run(["probe"])


def test_an_interrupted_verb_exits_with_130(verb) -> None:
    def fail() -> None:
        raise KeyboardInterrupt

    verb(fail)
    assert run("probe") == 130


def test_a_verb_chooses_its_own_exit_code(verb) -> None:
    def fail() -> None:
        raise typer.Exit(1)

    verb(fail)
    assert run("probe") == 1


def test_a_verb_with_sub_verbs_takes_its_arguments(verb, capsys: pytest.CaptureFixture[str]) -> None:
    app = typer.Typer()

    @app.command()
    def check(path: str) -> None:
        typer.echo(f"checked {path}")

    @app.command()
    def get(name: str) -> None:
        typer.echo(f"got {name}")

    verb(app)
    assert run("probe", "check", "here") == 0
    assert capsys.readouterr().out == "checked here\n"
    assert run("probe") == 2
    assert capsys.readouterr().err == "attune: error: Missing command. (see: attune probe --help)\n"


def test_without_a_verb_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 0
    assert "Usage: attune" in capsys.readouterr().out


def test_a_full_disk_behind_stdout_is_one_line() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "attune.cli.main", "--version"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert (done.returncode, done.stderr) == (2, "attune: error: No space left on device\n")


def test_a_closed_pipe_is_not_a_crash() -> None:
    command = f"{sys.executable} -m attune.cli.main --help | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env={**os.environ, "COLUMNS": "100"})
    assert done.returncode in (0, 1, 141)  # Typer itself answers a closed pipe with 1
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
