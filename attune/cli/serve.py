"""`attune serve`: the HTTP API and the web chat; its keys, and what it keeps."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from attune.cli.options import BrevityOption, CountryOption, NameOption, WarmthOption
from attune.errors import SettingsError
from attune.files import atomic_write

app = typer.Typer(invoke_without_command=True)
keys_app = typer.Typer(help="API keys of a server, kept as hashes.")
app.add_typer(keys_app, name="keys")

StoreOption = Annotated[str, typer.Option(envvar="ATTUNE_STORE", help="sqlite:///FILE or postgresql://…")]
KeysOption = Annotated[Path, typer.Option("--keys", envvar="ATTUNE_KEYS", help="The file of keys.")]
UserOption = Annotated[str | None, typer.Option(help="Only what came with this `user`.")]
ConversationOption = Annotated[str | None, typer.Option(help="Only this conversation.")]


class What(StrEnum):
    conversations = "conversations"
    feedback = "feedback"
    training = "training"


@app.callback()
def main(
    context: typer.Context,
    system: Annotated[
        list[str] | None,
        typer.Option(help="A run folder or a registered system (may be repeated); the first is the default."),
    ] = None,
    host: Annotated[
        str, typer.Option(envvar="ATTUNE_HOST", help="Where to listen; 0.0.0.0: everywhere.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(envvar="ATTUNE_PORT", min=0, max=65535, help="0: a free one.")] = 8000,
    store: Annotated[
        str | None, typer.Option(envvar="ATTUNE_STORE", help="Keep conversations: sqlite:///FILE or postgresql://…")
    ] = None,
    keys: Annotated[
        Path | None, typer.Option(envvar="ATTUNE_KEYS", help="Answer only calls with a key of this file.")
    ] = None,
    cors: Annotated[
        list[str] | None, typer.Option(help="Another origin whose pages may call (may be repeated).")
    ] = None,
    max_batch: Annotated[int, typer.Option(help="Replies worked out together, at most.")] = 16,
    max_wait: Annotated[float, typer.Option(help="Milliseconds that a batch waits for company, under load.")] = 50,
    queue: Annotated[int, typer.Option(help="Requests under way or waiting; one more gets 429.")] = 64,
    streams: Annotated[int, typer.Option(help="Replies streamed at the same time; others wait.")] = 4,
    deadline: Annotated[float, typer.Option(help="Seconds after which a request is dropped.")] = 60,
    name: NameOption = "",
    warmth: WarmthOption = 0.5,
    brevity: BrevityOption = 0.5,
    country: CountryOption = None,
    log_text: Annotated[bool, typer.Option("--log-text", help="Log what people wrote and what was answered.")] = False,
) -> None:
    """Serve the HTTP API (compatible with OpenAI's client libraries) and the web chat."""
    if context.invoked_subcommand:
        return
    from attune.generate.saying import Tone
    from attune.respond.agent import load
    from attune.respond.preparing import prepare
    from attune.serve.app import create_app
    from attune.serve.run import address_of, bound, load_agents, run
    from attune.serve.settings import ServeSettings
    from attune.serve.store import Store
    from attune.web.keys import KeyFile

    tone = Tone(name, warmth, brevity).checked()
    settings = ServeSettings(
        max_batch=max_batch,
        max_wait=max_wait / 1000,
        queue=queue,
        streams=streams,
        deadline=deadline,
        cors=tuple(cors or ()),
        log_text=log_text,
    )
    listening = bound(host, port)
    known = KeyFile(keys).checked() if keys else None
    kept = Store(store) if store else None
    systems = system or ["default"]
    for one in systems:
        prepare(one, Console(stderr=True))
    agents = load_agents(systems, lambda one: load(one, tone=tone, country=country))
    typer.echo(f"Attune ({', '.join(agents)}) at {address_of(listening)}  API: /docs  stop: Ctrl-C", err=True)
    if known is None and host not in ("127.0.0.1", "localhost", "::1"):
        typer.echo("Anybody who reaches this address can talk with it: there are no --keys.", err=True)
    run(create_app(agents, settings, keys=known, store=kept), listening, log_text=log_text)


@keys_app.command("add")
def add_key(name: Annotated[str, typer.Argument(help="Whose key it is.")], keys: KeysOption) -> None:
    """Make a key and print it, once."""
    from attune.web.keys import KeyFile

    typer.echo(KeyFile(keys).add(name))


@keys_app.command("list")
def list_keys(keys: KeysOption) -> None:
    """List the names of the keys."""
    from attune.web.keys import KeyFile

    for key in KeyFile(keys).all():
        typer.echo(f"{key.name}\t{key.created}")


@keys_app.command("remove")
def remove_key(name: Annotated[str, typer.Argument(help="Whose key it is.")], keys: KeysOption) -> None:
    """Forget a key. A running server refuses it from then on."""
    from attune.web.keys import KeyFile

    KeyFile(keys).remove(name)


@app.command()
def export(
    store: StoreOption,
    out: Annotated[Path, typer.Option(help="The file; one JSON object a line.")] = Path("/dev/stdout"),
    what: Annotated[
        What, typer.Option(help="training: dialogues whose last turn is a reply that people gave or liked.")
    ] = What.conversations,
    user: UserOption = None,
    conversation: ConversationOption = None,
) -> None:
    """Write out what a server keeps."""
    from attune.serve.store import Store, training_dialogue

    kept = Store(store)
    only = {"user": user, "conversation": conversation}
    rows = kept.export(**only) if what is What.conversations else kept.export_feedback(**only)
    count = 0
    with atomic_write(out) as file:
        for row in rows:
            shown = training_dialogue(row) if what is What.training else row
            if shown:
                file.write(json.dumps(shown, ensure_ascii=False) + "\n")
                count += 1
    print(f"{count:,} written to {out}", file=sys.stderr)


@app.command()
def erase(
    store: StoreOption,
    user: UserOption = None,
    conversation: ConversationOption = None,
    feedback: Annotated[
        str | None, typer.Option(help="Only this feedback, by the id that its giver was shown.")
    ] = None,
) -> None:
    """Erase a conversation, one piece of feedback, or everything of a user."""
    if [user, conversation, feedback].count(None) != 2:
        raise SettingsError("say what to erase: --conversation ID, --feedback ID or --user NAME")
    from attune.serve.store import Store

    kept = Store(store)
    erased = kept.erase_feedback(feedback) if feedback is not None else kept.erase(user=user, conversation=conversation)
    typer.echo(f"erased: {erased['conversations']:,} conversations, {erased['feedback']:,} pieces of feedback")
