"""How a server behaves: batches, limits, who may call it."""

from __future__ import annotations

from dataclasses import dataclass

from attune.errors import SettingsError


@dataclass(frozen=True)
class ServeSettings:
    """Settings of a server. Each is an option of `attune serve`, but for the sizes `max_body`, `max_chars` and `max_messages`."""

    max_batch: int = 16
    """Replies that are worked out together, at most."""
    max_wait: float = 0.05
    """Seconds that a batch waits for company, if the one before it had some."""
    queue: int = 64
    """Requests under way or waiting; one more is answered with 429."""
    streams: int = 4
    """Streamed replies and analyses that are worked on at the same time; others wait."""
    deadline: float = 60.0
    """Seconds after which a request is dropped."""
    max_body: int = 512 * 1024
    """Bytes of a request's body."""
    max_chars: int = 10_000
    """Characters of one message, or of several in a row from the same side."""
    max_messages: int = 1_000
    """Messages of one request."""
    cors: tuple[str, ...] = ()
    """Other origins whose pages may call this server; by default none."""
    log_text: bool = False
    """Log what people wrote and what was answered."""

    def __post_init__(self) -> None:
        for name in ("max_batch", "queue", "streams", "max_body", "max_chars", "max_messages"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.max_wait < 0 or self.deadline <= 0:
            raise SettingsError(f"max_wait ({self.max_wait}) and deadline ({self.deadline}) are seconds, from 0")
