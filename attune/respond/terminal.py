"""The chat in a terminal: reads lines, obeys commands, prints replies as they come."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from attune.errors import AttuneError, SettingsError, did_you_mean
from attune.respond.agent import Agent
from attune.respond.conversation import Conversation
from attune.respond.replies import STAGES, Reply

COMMANDS = {
    "/why": "why the last reply is what it is: emotion, intent, concepts, candidates, guard, times",
    "/intent": "/intent questioning asks for questions from now on; /intent auto lets the agent decide",
    "/system": "/system kemp, or a run folder: go on with another system",
    "/save": "/save FILE keeps this conversation",
    "/new": "start another conversation",
    "/help": "show this",
    "/quit": "end",
}
_SHOWN = 5  # rows of /why


class Chat:
    """A conversation with commands. `open_agent` prepares and loads the system that /system names."""

    def __init__(
        self, agent: Agent, open_agent: Callable[[str], Agent], console: Console, *, seed: int | None = None
    ) -> None:
        self.conversation = Conversation(agent, seed=seed)
        self.console = console
        self._open = open_agent
        self._noted: set[str] = set()

    def obey(self, line: str) -> bool:
        """Carry out a command; False if it ends the chat."""
        command, _, about = line.strip().partition(" ")
        about = about.strip()
        if command in ("/quit", "/exit"):
            return False
        if command not in COMMANDS:
            raise SettingsError(did_you_mean(command, COMMANDS, "command"))
        getattr(self, f"_{command[1:]}")(about)
        return True

    def print_reply(self, text: str) -> None:
        """Print the reply as it comes, and beside it what the person seems to feel. Ctrl-C stops it; the chat goes on."""
        try:
            with closing(self.conversation.stream(text)) as pieces:
                for piece in pieces:
                    self.console.print(Text(piece, "cyan"), end="", soft_wrap=True)
        except KeyboardInterrupt:
            self.say(" … stopped, and forgotten")
            return
        self.say(f"   {felt}" if (felt := reading(self.conversation.exchanges[-1][1])) else "")
        self.print_notes()

    def print_notes(self) -> None:
        """Say once what does not work here."""
        for note in self.conversation.agent.notes:
            if note not in self._noted:
                self._noted.add(note)
                self.say(f"({note})")

    def greet(self) -> None:
        """Who is talking, and what it is not."""
        agent = self.conversation.agent
        called = f"{agent.tone.name}, of Attune" if agent.tone.name else "Attune"
        self.console.print(
            Text.assemble(
                (called, "bold"),
                f" ({agent.name}). It is a machine and can be wrong; in danger, call for help where you live.",
            ),
            soft_wrap=True,
        )
        self.say("/help shows what else you can do here, /quit ends. Nothing is kept unless you ask for it.")
        self.print_notes()

    def complain(self, error: AttuneError) -> None:
        """A mistake, in one line."""
        self.console.print(Text(str(error), "red"), soft_wrap=True)

    def say(self, text: str) -> None:
        """Something beside the conversation."""
        self.console.print(Text(text, "dim"), soft_wrap=True)

    def _why(self, about: str) -> None:
        if not self.conversation.exchanges:
            raise AttuneError("there is no reply yet")
        self.console.print(why(self.conversation.exchanges[-1][1]))

    def _intent(self, about: str) -> None:
        if not about:
            self.say(f"Intent: {self.conversation.intent or 'auto'}.")
            return
        self.conversation.intent = self.conversation.agent.check_intent(None if about == "auto" else about)
        self.say("The agent decides." if about == "auto" else f"From now on: {about}.")

    def _system(self, about: str) -> None:
        before = self.conversation.agent
        if not about:
            self.say(f"System: {before.name} (weights: {before.licence}).")
            return
        agent = self._open(about)
        self.conversation.agent = agent
        if self.conversation.intent is not None and agent.speaker is None:
            self.conversation.intent = None
        before.close()
        self.say(f"Now {agent.name} (weights: {agent.licence}).")

    def _save(self, about: str) -> None:
        if not about:
            raise SettingsError("/save needs the name of a file, as in: /save talk.json")
        self.say(f"Saved to {self.conversation.save(about)}.")

    def _new(self, about: str) -> None:
        self.conversation.restart()
        self.say("A new conversation.")

    def _help(self, about: str) -> None:
        table = Table.grid(padding=(0, 2))
        for command, meaning in COMMANDS.items():
            table.add_row(Text(command, "bold"), Text(meaning, "dim"))
        self.console.print(table)


def reading(reply: Reply) -> str:
    """What the person seems to feel, in one line.

    >>> reading(Reply("Oh no!", "kemp", emotions={"sad": 0.62, "lonely": 0.2, "angry": 0.01}))
    'sad 62 %, lonely 20 %'
    """
    return ", ".join(f"{name} {share * 100:.0f} %" for name, share in list(reply.emotions.items())[:3] if share >= 0.05)


def why(reply: Reply) -> RenderableType:
    """Everything behind a reply."""
    parts: list[RenderableType] = []
    if reply.guard["risk"] or reply.guard["action"] != "none":
        risk = f", risk: {reply.guard['risk']}" if reply.guard["risk"] else ""
        parts.append(_part("Guard", [[f"{reply.guard['action']}{risk}", reply.guard["why"]]]))
    felt = [[name, f"{share:.1%}"] for name, share in list(reply.emotions.items())[:_SHOWN]]
    parts.append(_part("Emotion", felt or [["not perceived by this system"]]))
    parts.append(_part("Intent", [[reply.intent or "none", reply.intent_why]]))
    recalled = [
        [f"{one['head']} <{one['relation']}> {one['tail']}", f"{one['score']:.2f}"] for one in reply.concepts[:_SHOWN]
    ]
    parts.append(_part("Concepts", recalled or [["none"]]))
    said = [[_score(one["score"]), one["text"], _scores(one)] for one in reply.candidates]
    parts.append(_part("Candidates", said or [["none: the guard answered"]]))
    spent = [f"{stage} {reply.timings[stage]:.0f}" for stage in (*STAGES, "total", "first") if stage in reply.timings]
    parts.append(_part("Milliseconds", [["  ".join(spent)]]))
    parts.append(_part("System", [[f"{reply.system}, weights: {reply.licence}, seed {reply.seed}"]]))
    return Group(*parts)


def _part(title: str, rows: Sequence[Sequence[str]]) -> Table:
    table = Table.grid(padding=(0, 2))
    for i, row in enumerate(rows):
        head = Text(f"{title:12s}" if i == 0 else " " * 12, "bold")
        table.add_row(head, *(Text(cell, "" if j == 0 else "dim") for j, cell in enumerate(row)))
    return table


def _score(score: float | None) -> str:
    return "" if score is None else f"{score:.2f}"


def _scores(candidate: Mapping[str, Any]) -> str:
    scores = [", ".join(f"{name} {value:.2f}" for name, value in candidate["scores"].items())]
    refused = [f"refused: {candidate['refused']}"] if "refused" in candidate else []
    return "; ".join(filter(None, [*scores, *refused]))
