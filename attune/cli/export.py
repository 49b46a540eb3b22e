"""`attune export`: a run of `attune` in the form that talks without torch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def main(
    run: Annotated[Path, typer.Argument(help="Run folder of the system attune.")],
    out: Annotated[Path, typer.Option(help="Folder to write; what is there is replaced.")],
    kind: Annotated[str, typer.Option(help="How the adapters are kept: q8_0, f16 or f32.")] = "q8_0",
    torch: Annotated[bool, typer.Option("--torch", help="Also keep the run itself, in half precision.")] = False,
) -> None:
    """Write the perceiver as ONNX and the decoder's adapters as GGUF; the base weights stay the packaged part."""
    from attune.train.export import export
    from attune.train.export_adapter import checked

    sizes = export(run, out, checked(kind), torch)
    for name, size in sizes.items():
        typer.echo(f"{size / 1e6:8.1f} MB  {name}")
    typer.echo(f"{sum(sizes.values()) / 1e6:8.1f} MB  {out}")
