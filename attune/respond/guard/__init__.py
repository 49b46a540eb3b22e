"""The guard: danger in a person's words, harm in a reply (docs/safety.md)."""

from attune.respond.guard.guard import Checked, Guard, Heard, load_guard

__all__ = ["Checked", "Guard", "Heard", "load_guard"]
