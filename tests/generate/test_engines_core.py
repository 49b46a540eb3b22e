from __future__ import annotations

import subprocess
import sys


def test_no_engine_but_torch_brings_in_torch() -> None:
    names = ("base", "llama", "perceiver", "remote", "merged", "fragments")
    imports = "\n".join(f"import attune.generate.engines.{name}" for name in names)
    code = f"import sys\n{imports}\nprint(sorted({{'torch', 'transformers', 'gguf'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
