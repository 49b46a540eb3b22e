"""One file per system, shared `layers/`, and a registry.

A system is three things of one name: ``models/<name>.py`` (with ``-`` as ``_``) that registers its model class,
``recipes/<name>.yaml``, and nothing else. The registry finds it by its recipe and imports it when asked for.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attune.registry import Registry

RECIPES = Path(__file__).parents[1] / "recipes"

SYSTEMS: Registry[Any] = Registry(
    "system", {file.stem: f"attune.models.{file.stem.replace('-', '_')}" for file in sorted(RECIPES.glob("*.yaml"))}
)
register_system = SYSTEMS.register
