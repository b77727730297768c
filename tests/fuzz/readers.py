"""Every reader of a file that may be a stranger's: a whole file of its kind, and what is done with a damaged one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from ropewalk.app.files.session_file import read_session, write_session
from ropewalk.app.lessons.loading import FOLDER, load_lesson
from ropewalk.app.passing import PASSING
from ropewalk.app.settings import SettingsStore
from ropewalk.model.checkpoints import open_checkpoint, outline_checkpoint
from ropewalk.model.checkpoints.families.gguf_architectures import ARCHITECTURES
from ropewalk.model.checkpoints.tokenizers.beside import tokenizer_beside
from ropewalk.model.decoder.interventions import NoScale
from ropewalk.model.engine import saved_runs
from ropewalk.model.engine.frames import MAGIC, FrameReader, Message, frames_of
from ropewalk.model.engine.packing import Packing
from ropewalk.model.engine.requests import OpenModel, RunPrompt
from ropewalk.model.errors import RopewalkError
from ropewalk.model.lessons.evaluation import Scope, check, evaluate
from ropewalk.model.lessons.expressions import read_expression
from ropewalk.model.progress import finished
from ropewalk.model.readings.readout import read_cell, read_row
from ropewalk.model.readings.records import Sampling
from ropewalk.model.runs.trace import append, capture
from ropewalk.model.survey.folder import MANIFEST, tally_file
from ropewalk.model.survey.result import load_survey
from ropewalk.model.survey.running import survey
from ropewalk.model.tokens.chat import ChatTemplate, Limits, conversation, rendered_steps
from ropewalk.model.tokens.prompt import Prompt
from ropewalk.model.tokens.tokenizer import JsonCodec, Tokenizer, train_tokenizer
from ropewalk.model.trace_files.header import About
from ropewalk.model.trace_files.trace_file import save_trace
from tests.app.files.test_session_file import SAVED
from tests.app.tiny_adapter import write_adapter
from tests.app.tiny_checkpoint import write_checkpoint
from tests.model.checkpoints.tokenizers import test_beside, test_vocab_and_merges
from tests.model.small_models import make, random_ids
from tests.model.survey.small_survey import SmallModel, texts_of

TEXT = "the world aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa! <s> 12345 ä中\n"


@dataclass(frozen=True)
class Reader:
    """A reader.

    Attributes
    ----------
    seeds
        Makes a folder with a whole file, and returns that file and what else it may hold to begin with.
    read
        Reads what lies in the folder, as a person's click would; the file is the damaged one.
    share
        How many of a thousand inputs of all readers are for this one.
    refuses
        Whether it refuses anything; else what it cannot read is as if it was not there.
    """

    seeds: Callable[[Path], tuple[Path, list[bytes]]]
    read: Callable[[Path], object]
    share: int = 40
    refuses: bool = True


def _one(path: Path, *more: bytes) -> tuple[Path, list[bytes]]:
    return path, [path.read_bytes(), *more]


# ----------------------------------------------------------------------------------------------------------------------
# Checkpoints

SIZES = {"vocab_size": 24, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
         "num_key_value_heads": 1, "head_dim": 8, "intermediate_size": 8, "max_position_embeddings": 64,
         "rms_norm_eps": 1e-6, "n_embd": 16, "n_head": 2, "n_layer": 2, "n_positions": 64, "num_experts": 4,
         "num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8}  # fmt: skip


def _configs(folder: Path) -> tuple[Path, list[bytes]]:
    """One of every family, with what it reads beyond the sizes as far as a small file of that says it."""
    from ropewalk.model.checkpoints.families.reading import fields_of
    from ropewalk.model.checkpoints.families.table import FAMILIES

    folder.mkdir()
    seeds = []
    for family in FAMILIES:
        known = fields_of(family)
        fields: dict[str, Any] = {name: value for name, value in SIZES.items() if name in known}
        more = {
            "layer_types": ["sliding_attention", "full_attention"], "sliding_window": 5, "sliding_window_pattern": 2,
            "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 12},
            "mlp_only_layers": [0], "final_logit_softcapping": 30.0, "query_pre_attn_scalar": 8,
        }  # fmt: skip
        seeds += [
            json.dumps({"model_type": family.name} | fields | extra).encode()
            for extra in ({}, {name: value for name, value in more.items() if name in known})
        ]
    (folder / "config.json").write_bytes(seeds[0])
    return folder / "config.json", seeds


def _opens(path: Path) -> None:
    """Look at it, open it, use its tokenizer."""
    outline_checkpoint(path)
    checkpoint = open_checkpoint(path)
    if checkpoint.tokenizer is not None:
        _uses(checkpoint.tokenizer)


def _uses(tokenizer: Tokenizer) -> None:
    tokenizer.describe(tokenizer.encode(TEXT))
    tokenizer.encode(TEXT, add_special=False, names_special=True)


def _checkpoint(folder: Path) -> Path:
    """A tiny model without a tokenizer."""
    write_checkpoint(folder, tokenizer=False)
    return folder


def _safetensors(folder: Path) -> tuple[Path, list[bytes]]:
    return _one(_checkpoint(folder) / "model.safetensors")


def _sharded(folder: Path, suffix: str) -> tuple[Path, list[bytes]]:
    from tests.model.checkpoints.rewriting import shard

    shard(_checkpoint(folder), suffix)
    return _one(next(iter(folder.glob("*.index.json"))))


def _torch(folder: Path) -> tuple[Path, list[bytes]]:
    tensors = load_file(_checkpoint(folder) / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(tensors, folder / "pytorch_model.bin")
    return _one(folder / "pytorch_model.bin")


def _minimind(folder: Path) -> tuple[Path, list[bytes]]:
    _torch(folder)
    (folder / "config.json").unlink()
    (folder / "pytorch_model.bin").rename(folder / "full_sft_32.pth")
    return _one(folder / "full_sft_32.pth")


def _adapter(folder: Path) -> tuple[Path, list[bytes]]:
    _checkpoint(folder)
    write_adapter(folder / "adapter")
    return _one(folder / "adapter" / "adapter_config.json")


def _adapter_weights(folder: Path) -> tuple[Path, list[bytes]]:
    _adapter(folder)
    return _one(folder / "adapter" / "adapter_model.safetensors")


def _merges(file: Path) -> None:
    open_checkpoint(file.parent.parent, adapter=file.parent)


BLOCK: dict[str, tuple[int, ...]] = {
    "attn_norm": (16,), "ffn_norm": (16,), "attn_q": (16, 16), "attn_k": (8, 16), "attn_v": (8, 16),
    "attn_output": (16, 16), "ffn_gate": (32, 16), "ffn_up": (32, 16), "ffn_down": (16, 32),
}  # fmt: skip


@cache
def _gguf_bytes() -> tuple[bytes, ...]:
    """Small files of several architectures, by the package of its makers."""
    import tempfile

    import gguf
    import numpy as np

    found = []
    for name in ("llama", "qwen2", "gemma2", "phi3"):
        if name not in ARCHITECTURES:
            continue
        with tempfile.TemporaryDirectory() as folder:
            writer = gguf.GGUFWriter(Path(folder) / "model.gguf", name)
            writer.add_context_length(64)
            writer.add_embedding_length(16)
            writer.add_block_count(1)
            writer.add_feed_forward_length(32)
            writer.add_head_count(2)
            writer.add_head_count_kv(1)
            writer.add_key_length(8)
            writer.add_value_length(8)
            writer.add_layer_norm_rms_eps(1e-6)
            writer.add_rope_freq_base(10000.0)
            writer.add_rope_dimension_count(8)
            pieces = ["<unk>", "<s>", "</s>", *"\u2581abcdehlortw!"]
            writer.add_tokenizer_model("llama")
            writer.add_token_list(pieces)
            writer.add_token_scores([0.0] * len(pieces))
            writer.add_token_types([2, 3, 3, *[1] * (len(pieces) - 3)])
            draw = np.random.default_rng(0)
            shapes: dict[str, tuple[int, ...]] = {"token_embd": (16, 16), "output_norm": (16,), "output": (16, 16)}
            shapes |= {f"blk.0.{part}": shape for part, shape in BLOCK.items()}
            for tensor, shape in shapes.items():
                writer.add_tensor(f"{tensor}.weight", draw.standard_normal(shape).astype(np.float32))
            writer.write_header_to_file()
            writer.write_kv_data_to_file()
            writer.write_tensors_to_file()
            writer.close()
            found.append((Path(folder) / "model.gguf").read_bytes())
    return tuple(found)


def _gguf(folder: Path) -> tuple[Path, list[bytes]]:
    folder.mkdir()
    (folder / "model.gguf").write_bytes(_gguf_bytes()[0])
    return folder / "model.gguf", list(_gguf_bytes())


def _params(folder: Path) -> tuple[Path, list[bytes]]:
    folder.mkdir()
    draw = torch.Generator().manual_seed(0)
    shapes: dict[str, tuple[int, ...]] = {"tok_embeddings": (24, 16), "norm": (16,), "output": (24, 16)}
    shapes |= {f"layers.0.{part}": shape for part, shape in {
        "attention_norm": (16,), "ffn_norm": (16,), "attention.wq": (16, 16), "attention.wk": (8, 16),
        "attention.wv": (8, 16), "attention.wo": (16, 16), "feed_forward.w1": (32, 16), "feed_forward.w2": (16, 32),
        "feed_forward.w3": (32, 16)}.items()}  # fmt: skip
    torch.save({f"{name}.weight": torch.randn(shape, generator=draw) for name, shape in shapes.items()},
               folder / "consolidated.00.pth")  # fmt: skip
    params = {"dim": 16, "n_layers": 1, "n_heads": 2, "n_kv_heads": 1, "head_dim": 8, "vocab_size": -1,
              "max_seq_len": 48, "norm_eps": 1e-5}  # fmt: skip
    (folder / "params.json").write_text(json.dumps(params))
    return _one(folder / "params.json")


# ----------------------------------------------------------------------------------------------------------------------
# Tokenizers


def _tokenized(file: Path) -> None:
    tokenizer = tokenizer_beside(file.parent)
    if tokenizer is not None:
        _uses(tokenizer)


def _json_tokenizer(folder: Path) -> tuple[Path, list[bytes]]:
    folder.mkdir()
    codec = train_tokenizer("the question of the whole of the world " * 3, 270).codec
    assert isinstance(codec, JsonCodec)
    codec.save(folder / "tokenizer.json")
    state = json.loads((folder / "tokenizer.json").read_text())
    state["normalizer"] = {"type": "Sequence", "normalizers": [
        {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}, {"type": "NFC"},
        {"type": "Prepend", "prepend": "_"}]}  # fmt: skip
    state["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": "(a|b)*c| ?\\w+"}, "behavior": "Isolated", "invert": False},
        state["pre_tokenizer"]]}  # fmt: skip
    state["post_processor"] = {"type": "TemplateProcessing", "single": [
        {"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}}}  # fmt: skip
    return _one(folder / "tokenizer.json", json.dumps(state).encode())


def _named_tokens(folder: Path) -> tuple[Path, list[bytes]]:
    _json_tokenizer(folder)
    config = {"bos_token": "<s>", "eos_token": {"content": "</s>", "special": True}, "add_bos_token": True,
              "chat_template": "{{ messages[0].content }}", "model_max_length": 64,
              "added_tokens_decoder": {"270": {"content": "<pad>", "special": True, "lstrip": False}}}  # fmt: skip
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return _one(folder / "tokenizer_config.json")


def _sentencepiece(folder: Path) -> tuple[Path, list[bytes]]:
    folder.mkdir()
    pieces = dict.fromkeys("▁ abcdehlortw!", (-0.5, 1)) | {"the": (-0.1, 1), "<0xE4>": (0.0, 6)}
    both = [test_beside.vocabulary(kind, pieces) for kind in (1, 2)]
    (folder / "tokenizer.model").write_bytes(both[0])
    return folder / "tokenizer.model", both


def _tiktoken(folder: Path) -> tuple[Path, list[bytes]]:
    folder.mkdir()
    return _one(test_beside.write_tiktoken(folder / "tokenizer.model", test_beside.ranks_of_a_small_vocabulary()))


def _tekken(folder: Path) -> tuple[Path, list[bytes]]:
    folder.mkdir()
    return _one(test_beside.write_tekken(folder))


def _vocabulary(folder: Path) -> tuple[Path, list[bytes]]:
    folder.mkdir()
    test_vocab_and_merges.two_files(folder)
    return _one(folder / "vocab.json")


def _merges_file(folder: Path) -> tuple[Path, list[bytes]]:
    _vocabulary(folder)
    return _one(folder / "merges.txt")


TEMPLATES = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m['content'] | trim }}{{ eos_token }}{% endfor %}",
    "{%- set x = namespace(a=[]) -%}{%- for m in messages -%}{%- set x.a = x.a + [m.content] -%}{%- endfor -%}"
    "{{ x.a | join('-') | upper }}{{ '%s' % messages }}{{ messages | tojson(indent=2) }}",
    "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{% endif %}a{% endmacro %}{{ f(9) }}{{ 'a' * 9 }}{{ range(9) | list }}",
    "{{ raise_exception('no system') }}",
)


def _template(folder: Path) -> tuple[Path, list[bytes]]:
    folder.mkdir()
    (folder / "chat_template.jinja").write_text(TEMPLATES[0])
    return folder / "chat_template.jinja", [one.encode() for one in TEMPLATES]


def _renders(file: Path) -> None:
    source = file.read_text("utf-8", "replace")
    template = ChatTemplate(source, tokens={"eos_token": "</s>"})
    finished(rendered_steps(template, conversation("hello", "be brief"), Limits(seconds=1.5)))


# ----------------------------------------------------------------------------------------------------------------------
# What Ropewalk itself writes


def _session(folder: Path) -> tuple[Path, list[bytes]]:
    folder.mkdir()
    write_session(SAVED, folder / "work.ropewalk")
    return _one(folder / "work.ropewalk")


def _settings(folder: Path) -> tuple[Path, list[bytes]]:
    folder.mkdir()
    store = SettingsStore(folder / "settings.json")
    store.remember("", recent=("/models/a",), device="cpu")
    store.update(prompt="hello", sampling=Sampling(0.5))
    return _one(folder / "settings.json")


def _settles(file: Path) -> None:
    store = SettingsStore(file)
    if store.notice:
        raise RopewalkError(store.notice)


def _lesson(folder: Path) -> tuple[Path, list[bytes]]:
    folder.mkdir()
    seeds = [path.read_bytes() for path in sorted(FOLDER.glob("*.toml"))]
    (folder / "lesson.toml").write_bytes(seeds[0])
    return folder / "lesson.toml", seeds


EXPRESSIONS = (
    b"kv_bytes(llama3_70b, 4096)", b"largest([1, 2, 3])", b"share(3, 8)", b"write(12345.678, 2)",
    b"sum([0.5, whole(2.5)])", b"range(0, 9)", b"softmax([1, 2])", b"weights(bundled, 0, 0, 1)", b"-x",
)  # fmt: skip


def _expression(folder: Path) -> tuple[Path, list[bytes]]:
    from ropewalk.model.lessons.table import TABLE

    folder.mkdir()
    (folder / "expression.txt").write_bytes(EXPRESSIONS[0])
    calls = [f"{name}(1, [2, 3], 0.5)".encode() for name in TABLE] + [f"{name}([])".encode() for name in TABLE]
    return folder / "expression.txt", [*EXPRESSIONS, *calls]


def _evaluates(file: Path) -> None:
    expression = read_expression(file.read_text("utf-8", "replace"))
    scope = Scope(given={"x": 3, "y": (1.0, 2.0)})
    check(expression, scope)
    evaluate(expression, scope)


@cache
def _traces() -> tuple[bytes, ...]:
    import tempfile

    found = []
    for name, changes in (("plain", ()), ("sink", (NoScale(),)), ("window", ())):
        model = make(name)
        trace = append(model, capture(model, random_ids(6), interventions=changes), 5)
        with tempfile.TemporaryDirectory() as folder:
            save_trace(
                trace, Path(folder) / "run.safetensors", about=About(prompt=Prompt("typed"), drawn=(Sampling(),))
            )
            found.append((Path(folder) / "run.safetensors").read_bytes())
    return tuple(found)


def _trace(folder: Path) -> tuple[Path, list[bytes]]:
    folder.mkdir()
    (folder / "run.safetensors").write_bytes(_traces()[0])
    return folder / "run.safetensors", list(_traces())


def _looks(file: Path) -> None:
    """Open a run and look at some of its rows and cells."""
    saved_runs.outline_file(file)
    handle = saved_runs.run_of(saved_runs.open_file(file), 1, (0, 0, 0, 0))
    for layer in islice(handle.trace, 2):
        read_row(layer, 0, handle.run.length - 1)
        read_cell(layer, 0, handle.run.length - 1, 0)


def _survey(folder: Path) -> tuple[Path, list[bytes]]:
    survey(SmallModel("plain"), texts_of((9, 5)), out=folder, statistics=["self", "previous"])
    return _one(folder / MANIFEST)


def _tally(folder: Path) -> tuple[Path, list[bytes]]:
    _survey(folder)
    return _one(tally_file(folder))


def _surveys(file: Path) -> None:
    found = load_survey(file.parent)
    for name in found.names:
        found.mean(name)
    list(islice(found.rows(), 3))


@cache
def _packing() -> Packing:
    return Packing(PASSING)


def _frames(folder: Path) -> tuple[Path, list[bytes]]:
    folder.mkdir()
    said = [
        OpenModel("/models/a", "cpu", "float32", {"first_layers": 2}),
        RunPrompt(1, Prompt("hello"), 2, (0, 1)),
        SAVED,
    ]
    seeds = []
    for number, record in enumerate(said):
        packed = _packing().pack(record)
        frames = frames_of(Message(number, "request", "run", 0, packed))
        seeds.append(MAGIC + b"".join(bytes(part) for frame in frames for part in frame))
    (folder / "frames.bin").write_bytes(seeds[0])
    return folder / "frames.bin", seeds


def _hears(file: Path) -> None:
    reader = FrameReader(magic=True)
    messages = reader.feed(file.read_bytes())
    reader.end()
    for message in messages:
        _packing().unpack(message.packed.type, message.packed.data, message.packed.arrays)


def _folder_of(read: Callable[[Path], object]) -> Callable[[Path], object]:
    return lambda file: read(file.parent)


READERS: dict[str, Reader] = {
    "config": Reader(_configs, outline_checkpoint, 120),
    "safetensors": Reader(_safetensors, _folder_of(_opens), 60),
    "safetensors index": Reader(lambda folder: _sharded(folder, "safetensors"), _folder_of(_opens), 30),
    "torch": Reader(_torch, _folder_of(_opens), 60),
    "torch index": Reader(lambda folder: _sharded(folder, "bin"), _folder_of(_opens), 20),
    "minimind": Reader(_minimind, _opens, 30),
    "params": Reader(_params, _folder_of(_opens), 30),
    "gguf": Reader(_gguf, _opens, 100),
    "adapter": Reader(_adapter, _merges, 20),
    "adapter weights": Reader(_adapter_weights, _merges, 20),
    "tokenizer.json": Reader(_json_tokenizer, _tokenized, 60),
    "tokenizer_config.json": Reader(_named_tokens, _tokenized, 30, refuses=False),
    "sentencepiece": Reader(_sentencepiece, _tokenized, 50),
    "tiktoken": Reader(_tiktoken, _tokenized, 30),
    "tekken": Reader(_tekken, _tokenized, 30),
    "vocab.json": Reader(_vocabulary, _tokenized, 20),
    "merges.txt": Reader(_merges_file, _tokenized, 20),
    "chat template": Reader(_template, _renders, 3),
    "session": Reader(_session, read_session, 60),
    "settings": Reader(_settings, _settles, 30),
    "lesson": Reader(_lesson, load_lesson, 30),
    "expression": Reader(_expression, _evaluates, 60),
    "trace": Reader(_trace, _looks, 80),
    "survey": Reader(_survey, _surveys, 20),
    "survey tally": Reader(_tally, _surveys, 20),
    "frames": Reader(_frames, _hears, 60),
}
