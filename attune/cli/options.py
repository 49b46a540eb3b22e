"""Options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

NameOption = Annotated[str, typer.Option("--name", help="What the listener calls itself.")]
WarmthOption = Annotated[float, typer.Option("--warmth", help="From 0, matter-of-fact, to 1, very warm.")]
BrevityOption = Annotated[float, typer.Option("--brevity", help="From 0, at length, to 1, as short as can be.")]
CountryOption = Annotated[
    str | None, typer.Option("--country", help="Where help is to be found if it is needed, as in: GB")
]
