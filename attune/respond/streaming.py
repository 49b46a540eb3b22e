"""A reply while it is being said: clause by clause, so that each can be checked before anybody reads it."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Generator, Iterable, Iterator

from attune.errors import AttuneError
from attune.respond.replies import Reply

FEWEST = 3  # words before one that begins another clause
_JOINING = "and|but|because|so|that|when|while|if|which|who|to|how|what"
_CLAUSE_END = re.compile(rf"[.!?…,;:—–]+[\"'”’)\]]*\s+|\n+|(?P<joined>\s+)(?=(?:{_JOINING})\s)")


def clauses(pieces: Iterable[str]) -> Iterator[str]:
    """Pieces of any size as clauses; joined they are the same text without the blanks around it.

    >>> list(clauses(["Oh", " no, I'm so", " sorry to hear", " that! How", " old was she? "]))
    ['Oh no,', " I'm so sorry", ' to hear that!', ' How old was she?']
    """
    waiting, begun = "", False
    for piece in pieces:
        waiting += piece
        start = 0
        for end in _CLAUSE_END.finditer(waiting):
            clause = waiting[start : end.end()].rstrip()
            if end["joined"] and len(clause.split()) < FEWEST:
                continue
            if clause.strip():
                yield clause if begun else clause.lstrip()
                start += len(clause)  # the blanks after it stand before the next
                begun = True
        waiting = waiting[start:]
    if waiting.strip():
        yield waiting.rstrip() if begun else waiting.strip()


class ReplyStream(Iterator[str]):
    """Pieces of a reply as they are said, each after the guard. `reply` is the whole, once they are all read.

    `close()` stops the saying, also from another thread; `reply` is then what was said until that.
    """

    def __init__(self, say: Callable[[Callable[[], bool]], Generator[str, None, Reply]]) -> None:
        self._closed = threading.Event()
        self._pieces = say(self._closed.is_set)
        self._reply: Reply | None = None

    def __next__(self) -> str:
        try:
            return next(self._pieces)
        except StopIteration as end:
            if end.value is not None:
                self._reply = end.value
            raise StopIteration from None

    @property
    def reply(self) -> Reply:
        if self._reply is None:
            raise AttuneError("the reply is not finished: read the stream to its end first")
        return self._reply

    def close(self) -> None:
        """Stop, and free what the saying holds."""
        self._closed.set()
        try:
            for _ in self:  # what is under way ends at its next step, since it is closed
                pass
        except ValueError:  # another thread is reading; it ends there
            pass

    def __enter__(self) -> ReplyStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
