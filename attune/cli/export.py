"""`attune export`: a run of `attune` or `classifier-41` in the form that works without torch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def main(
    run: Annotated[Path, typer.Argument(help="Run folder of the system attune or classifier-41.")],
    out: Annotated[Path, typer.Option(help="Folder to write; what is there is replaced.")],
    kind: Annotated[str, typer.Option(help="How the adapters are kept: q8_0, f16 or f32.")] = "q8_0",
    torch: Annotated[bool, typer.Option("--torch", help="Also keep the run itself, in half precision.")] = False,
) -> None:
    """Write the decoder's adapters as GGUF and what the perceiver learnt as safetensors, for onnxruntime.

    Of a classifier, only what training added to its encoder. The base weights and the graph that onnxruntime runs are not in
    it: they are packaged.
    """
    from attune.train.export import export
    from attune.train.export_adapter import checked

    sizes = export(run, out, checked(kind), torch)
    for name, size in sizes.items():
        typer.echo(f"{size / 1e6:8.1f} MB  {name}")
    typer.echo(f"{sum(sizes.values()) / 1e6:8.1f} MB  {out}")
