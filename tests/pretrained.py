"""Tiny random pretrained parts for tests: a BERT and a RoBERTa encoder, a GPT-2 and a Llama decoder, each a folder."""

from __future__ import annotations

import atexit
import re
import shutil
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import (
    AutoModelForCausalLM,
    BertConfig,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaModel,
)

from attune.dialogue.types import Example

TEXTS = (
    "I finally got the job! Congratulations! What will you do there? I'll teach maths. Lovely!",
    "My old dog died on Monday. I'm so sorry. How old was she? Oh no! Can you call someone?",
    "A stranger paid for my lunch. How kind! It was. Did you know them? No. That's rare.",
)
ENCODERS, DECODERS = ("bert", "roberta"), ("gpt2", "llama")
SMALL: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "initializer_range": 0.3}
SMALL |= {"intermediate_size": 24, "max_position_embeddings": 514}


@cache
def _root() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="attune-tests-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def scratch(name: str) -> Path:
    """A folder that is gone when the process ends."""
    folder = _root() / name
    folder.mkdir(exist_ok=True)
    return folder


def part(kind: str) -> str:
    """The folder of a tiny checkpoint of this kind, made once per process."""
    folder = _root() / kind
    if not folder.is_dir():
        torch.manual_seed(7)
        tokenizer = word_pieces() if kind == "bert" else byte_pairs(kind)
        model(kind, tokenizer).eval().save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    return str(folder)


def assert_says_what_it_says_bare(
    model: Any, codec: Any, decoder: str, before: str, examples: Sequence[Example]
) -> None:
    """A model gives the logits of its decoder alone, which reads what the batch calls `before` and then the response."""
    model.eval()
    bare = AutoModelForCausalLM.from_pretrained(part(decoder)).eval()
    for item in codec.encode(examples):
        batch = codec.collate([item])
        with torch.inference_mode():
            cache = model.start(model.encode(batch))
            hidden = model.decode(batch["response"], cache)
            logits = torch.stack([model.scores(hidden[:, i], cache) for i in range(hidden.shape[1])], 1)
            whole = torch.cat([batch[before], batch["response"]], 1)
            expected = bare(input_ids=whole).logits[:, batch[before].shape[1] :]
        torch.testing.assert_close(logits, expected, rtol=1e-5, atol=1e-5)


def model(kind: str, tokenizer: Any) -> Any:
    size = len(tokenizer)
    if kind == "bert":
        return BertModel(BertConfig(vocab_size=size, **SMALL))
    if kind == "roberta":
        return RobertaModel(RobertaConfig(vocab_size=size, pad_token_id=tokenizer.pad_token_id, **SMALL))
    ends = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
    if kind == "gpt2":
        shape = {"n_embd": 12, "n_layer": 2, "n_head": 2, "n_positions": 512, "initializer_range": 0.3}
        return GPT2LMHeadModel(GPT2Config(vocab_size=size, **shape, **ends))
    shape = {**SMALL, "num_key_value_heads": 1, "num_hidden_layers": 3, "tie_word_embeddings": True}
    return LlamaForCausalLM(LlamaConfig(vocab_size=size, **shape, **ends))


def word_pieces() -> Any:
    # not trained: the trainer breaks ties differently in each process, and a test must not be a lottery
    words = sorted({word for text in TEXTS for word in re.findall(r"\w+|[^\w\s]", text.lower())})
    letters = sorted({letter for word in words for letter in word})
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{x}" for x in letters), *words]
    vocabulary = {piece: i for i, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    tokenizer.enable_truncation(5)  # as in the wild: a checkpoint's tokenizer cuts texts unless it is told not to
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)


def byte_pairs(kind: str) -> Any:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    if kind == "roberta":
        names = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
        names |= {"cls_token": "<s>", "sep_token": "</s>"}
        specials = ["<s>", "<pad>", "</s>", "<unk>"]
    elif kind == "gpt2":  # one token for both ends, and none to pad with
        names, specials = {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"}, ["<|endoftext|>"]
    else:
        names, specials = {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>"}, ["<|im_start|>", "<|im_end|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=320, special_tokens=specials, initial_alphabet=alphabet)
    tokenizer.train_from_iterator(TEXTS, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)
