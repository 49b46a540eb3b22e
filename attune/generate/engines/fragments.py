"""Tokens that are parts of one character, which llama.cpp says only when the character is whole."""

from __future__ import annotations

from functools import cached_property

from tokenizers import Tokenizer


class Fragments:
    """Finds the tokens before the last one of a character. For tokenizers that work on bytes, as GPT-2's."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer

    def is_part(self, token: int) -> bool:
        """Whether a token is no text by itself."""
        return token in self._tokens

    def before(self, token: int, said: bytes) -> list[int]:
        """The tokens that were said before `token` if `said` is what all of them say; mostly none. The longest are taken."""
        own = token_bytes(self.tokenizer.id_to_token(token) or "")
        if said.isascii() or not own or not said.endswith(own):
            return []
        rest, found = said[: len(said) - len(own)], []
        while rest:
            size = next((size for size in range(len(rest), 0, -1) if rest[:size] in self._parts), 0)
            if not size:
                return []
            found.append(self._parts[rest[:size]])
            rest = rest[size:]
        return found

    @cached_property
    def _tokens(self) -> frozenset[int]:
        return frozenset(self._parts.values())

    @cached_property
    def _parts(self) -> dict[bytes, int]:
        """Bytes that are no text by themselves, to their tokens."""
        parts = {}
        for text, token in self.tokenizer.get_vocab(with_added_tokens=False).items():
            said = token_bytes(text)
            if said is not None and not _whole(said):
                parts[said] = token
        return parts


def _whole(said: bytes) -> bool:
    try:
        said.decode()
    except UnicodeDecodeError:
        return False
    return True


def _letters() -> dict[str, int]:
    """The letter that stands for each byte in a byte-level vocabulary, to the byte: printable ones stand for themselves."""
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + i): byte for i, byte in enumerate(others)}


LETTERS = _letters()


def token_bytes(text: str) -> bytes | None:
    """What a token of a byte-level vocabulary says; None if it is not of one.

    >>> token_bytes("Ġsorry")
    b' sorry'
    """
    try:
        return bytes(LETTERS[letter] for letter in text)
    except KeyError:
        return None
