"""Running a server: the socket, the signals, and a graceful end."""

from __future__ import annotations

import signal
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from attune.errors import AttuneError, SettingsError
from attune.serve.batcher import Talker
from attune.web.logs import log_to

GRACE = 30  # seconds that requests under way are given when the server is asked to stop


def load_agents(systems: Sequence[str], load: Callable[[str], Talker]) -> dict[str, Talker]:
    """Load systems, ready for a first reply, under their names: that of the run folder or of the registered system."""
    agents: dict[str, Talker] = {}
    for system in systems:
        agent = load(system)
        name = agent.name if system == "default" else Path(system).name
        if name in agents:
            raise SettingsError(f"two systems are named '{name}'; rename the folder of one ({', '.join(systems)})")
        agent.warm_up()
        agents[name] = agent
    return agents


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens on an address; port 0 takes a free one."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise AttuneError(
            f"cannot listen on {host}:{port}: {reason.lower()}; choose another with --host and --port"
        ) from error
    return listening


def address_of(listening: socket.socket) -> str:
    """Where a browser finds it: http://127.0.0.1:8000."""
    host, port = listening.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{host}:{port}"


def run(app: FastAPI, listening: socket.socket, *, log_text: bool = False) -> None:
    """Serve until SIGTERM or Ctrl-C; what is under way is finished first. SIGTERM is a good end (exit code 0)."""
    log_to(sys.stderr, text=log_text)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE,
        proxy_headers=False,  # nothing here depends on who calls
        ws="none",
    )
    signal.signal(signal.SIGTERM, lambda *_: None)  # uvicorn raises it again once everything is finished
    uvicorn.Server(config).run(sockets=[listening])
