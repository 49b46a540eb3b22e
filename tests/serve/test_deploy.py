"""The Dockerfile and the compose file: they are read here, and the command lines in them are run as they stand."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

import openai
import pytest
import yaml
from packaging.requirements import Requirement

import attune
from attune.dialogue.types import Dialogue
from attune.serve.run import GRACE, bound
from attune.serve.store import Store
from tests.serve.conftest import until

TREE = Path(attune.__file__).parents[1]
COMPOSE: dict[str, Any] = yaml.safe_load((TREE / "compose.yaml").read_text(encoding="utf-8"))


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile, instruction by instruction."""
    text = re.sub(r"\\\n\s*", " ", (TREE / "Dockerfile").read_text(encoding="utf-8"))
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1].strip()) for line in lines]


DOCKERFILE = instructions()
FINAL = DOCKERFILE[max(i for i, (name, _) in enumerate(DOCKERFILE) if name == "FROM") :]


def last(name: str) -> str:
    return [value for instruction, value in DOCKERFILE if instruction == name][-1]


COMMAND: list[str] = json.loads(last("CMD"))
HEALTH: list[str] = json.loads(last("HEALTHCHECK").split("CMD", 1)[1])
ENVIRONMENT = dict(pair.split("=", 1) for pair in shlex.split(last("ENV")))
SERVICE: dict[str, Any] = COMPOSE["services"]["attune"]


def test_the_image_is_not_run_by_root_and_keeps_nothing_but_the_cache() -> None:
    assert ("USER", "attune") in FINAL
    assert FINAL.index(("USER", "attune")) < [name for name, _ in FINAL].index("CMD")
    assert last("VOLUME") == ENVIRONMENT["ATTUNE_CACHE"]
    assert last("EXPOSE") == ENVIRONMENT["ATTUNE_PORT"]


def test_the_image_has_the_library_that_llama_cpp_needs() -> None:
    """`xllamacpp` is linked with OpenMP; the image of Python that it is put into has none."""
    before_user = FINAL[: FINAL.index(("USER", "attune"))]
    (installs,) = (value for name, value in before_user if name == "RUN" and "apt-get install" in value)
    assert "libgomp1" in installs.split("apt-get install")[1].split("&&")[0].split()
    assert "--no-install-recommends" in installs
    assert installs.endswith("rm -rf /var/lib/apt/lists/*"), "in the layer that filled them"


def test_what_is_copied_into_the_image_is_there_and_not_ignored() -> None:
    let_in = re.findall(r"^!(.+)$", (TREE / ".dockerignore").read_text(encoding="utf-8"), re.MULTILINE)
    for copied in (value for name, value in DOCKERFILE if name == "COPY" and "--from" not in value):
        for source in copied.split()[:-1]:
            assert (TREE / source).exists(), source
            assert source in let_in
    assert {"pyproject.toml", "constraints.txt"} <= set(let_in)


def test_the_image_brings_the_core_and_the_serve_extra_without_torch() -> None:
    assert any('".[serve]"' in value and "-c constraints.txt" in value for name, value in DOCKERFILE if name == "RUN")
    project = tomllib.loads((TREE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    waiting = [Requirement(line) for line in project["dependencies"] + project["optional-dependencies"]["serve"]]
    known: set[str] = set()
    while waiting:
        need = waiting.pop()
        if (name := need.name.lower().replace("_", "-")) in known:
            continue
        known.add(name)
        for further in (Requirement(line) for line in metadata.requires(name) or []):
            marker = further.marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in (*need.extras, "")):
                waiting.append(further)
    assert {"fastapi", "uvicorn", "sqlalchemy", "alembic", "psycopg"} <= known
    assert known & {"torch", "transformers", "scipy", "scikit-learn", "matplotlib"} == set()


def test_the_package_brings_every_file_of_the_page_and_the_templates() -> None:
    setup = tomllib.loads((TREE / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    brought = {path for pattern in setup["package-data"]["attune"] for path in (TREE / "attune").glob(pattern)}
    for folder in ("web", "serve"):
        files = (path for path in (TREE / "attune" / folder).rglob("*") if path.is_file())
        assert {path for path in files if path.suffix not in (".py", ".pyc")} - brought == set()


def test_two_replicas_share_a_database_behind_a_balancer() -> None:
    services = COMPOSE["services"]
    assert SERVICE["deploy"]["replicas"] == 2
    assert SERVICE["depends_on"]["db"]["condition"] == "service_healthy"
    assert services["db"]["healthcheck"]["test"]
    assert [name for name in services if "ports" in services[name]] == ["balancer"]
    assert all(port.startswith("127.0.0.1:") for port in services["balancer"]["ports"])
    config = COMPOSE["configs"]["balancer"]["content"]
    assert f"attune:{SERVICE['environment']['ATTUNE_PORT']}" in config
    assert "server-template replica 2 " in config
    assert "GET /health" in config
    named = {volume.split(":")[0] for service in services.values() for volume in service.get("volumes", [])}
    assert named == set(COMPOSE["volumes"])
    assert f"parts:{ENVIRONMENT['ATTUNE_CACHE']}" in SERVICE["volumes"]
    assert int(SERVICE["stop_grace_period"].removesuffix("s")) > GRACE


def test_the_command_line_reads_every_variable_that_is_set() -> None:
    source = (TREE / "attune" / "cli" / "serve.py").read_text() + (TREE / "attune" / "files.py").read_text()
    for name in {*ENVIRONMENT, *SERVICE["environment"]} - {"PATH", "PYTHONUNBUFFERED"}:
        assert f'"{name}"' in source, name


@pytest.fixture
def run_folder(dialogues: list[Dialogue], tmp_path: Path) -> Path:
    from tests.systems import small_system

    system = small_system("emoprepend", dialogues)
    system.model.save_pretrained(tmp_path / "run")
    system.codec.save(tmp_path / "run")
    return tmp_path / "run"


@contextmanager
def started(command: list[str], environment: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def free_port() -> str:
    with bound("127.0.0.1", 0) as listening:
        return str(listening.getsockname()[1])


def place(settings: Mapping[str, str]) -> dict[str, str]:
    """An environment with a port of its own, and the default system unless the settings name another."""
    kept = {name: value for name, value in os.environ.items() if name not in ("ATTUNE_SYSTEM", "ATTUNE_ENGINE_URL")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**kept, "PATH": path, "OMP_NUM_THREADS": "1", "ATTUNE_PORT": free_port(), **settings}


def client(process: subprocess.Popen[str], environment: Mapping[str, str]) -> openai.OpenAI:
    """For a server that was started, once its health check is content."""
    until(lambda: _healthy(process, environment), 300)
    return openai.OpenAI(base_url=f"http://127.0.0.1:{environment['ATTUNE_PORT']}/v1", api_key="none")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_command_of_the_image_answers_with_the_default_system(default_parts: None) -> None:
    environment = place({})
    with started(COMMAND, environment) as process:
        said = {"role": "user", "content": "My old dog died on Monday."}
        done = client(process, environment).chat.completions.create(model="default", messages=[said])
        assert done.choices[0].message.content
        assert done.attune["emotion"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_commands_in_the_files_start_replicas_that_share_conversations(run_folder: Path, postgres: str) -> None:
    """Both commands as they are written, at once, on a new database; each until its own health check is content."""
    settings = {"ATTUNE_SYSTEM": str(run_folder), "ATTUNE_STORE": postgres}
    places = [place(settings) for _ in range(2)]
    with started(COMMAND, places[0]) as first, started(SERVICE["command"], places[1]) as second:
        clients = [client(first, places[0]), client(second, places[1])]
        said = {"role": "user", "content": "My old dog died on Monday."}
        done = clients[0].chat.completions.create(model="default", messages=[said], user="ann")
        answer = {"role": "assistant", "content": done.choices[0].message.content}
        clients[1].chat.completions.create(
            model="default",
            messages=[said, answer, {"role": "user", "content": "She was twelve."}],
            extra_body={"conversation": done.attune["conversation"]},
        )
        first.send_signal(signal.SIGTERM)
        second.send_signal(signal.SIGTERM)
        assert (first.wait(60), second.wait(60)) == (0, 0)
    (kept,) = Store(postgres).export()
    assert (kept["user"], len(kept["turns"])) == ("ann", 4)


def _healthy(process: subprocess.Popen[str], environment: Mapping[str, str]) -> bool:
    assert process.poll() is None, process.communicate()[1]
    return subprocess.run(HEALTH, env=environment, capture_output=True).returncode == 0
