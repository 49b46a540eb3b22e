"""A package index of our own: a folder of tiny wheels, and no network."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from attune.parts import PARTS, Part

MakeWheel = Callable[[str, Mapping[str, bytes]], Path]
MakePart = Callable[..., Part]


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("ATTUNE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ATTUNE_OFFLINE", raising=False)
    return folder


@pytest.fixture
def make_wheel(index: Path) -> MakeWheel:
    """Writes the wheel of `package` 1.0 with the given files into the index."""

    def make(package: str, files: Mapping[str, bytes]) -> Path:
        name = package.replace("-", "_")
        info = f"{name}-1.0.dist-info"
        path = index / f"{name}-1.0-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as wheel:
            for inside, content in files.items():
                wheel.writestr(inside, content)
            wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", "")
        return path

    return make


@pytest.fixture
def make_part(monkeypatch: pytest.MonkeyPatch) -> MakePart:
    """Registers a part for the length of a test."""

    def make(
        name: str, files: Mapping[str, bytes], package: str = "toy-lexicon", permissive: bool = True, **more: Any
    ) -> Part:
        sums = {inside: hashlib.sha256(content).hexdigest() for inside, content in files.items()}
        licence = "MIT" if permissive else "CC BY-NC 4.0"
        part = Part(name, package, "1.0", sums, licence, permissive, "to test", 0.1, **more)
        monkeypatch.setitem(PARTS._entries, name, part)
        return part

    return make
