"""Chat templates come out as transformers renders them; one that fails or attacks ends in a sentence, and soon."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import tokenizers
import transformers
from tokenizers import decoders, models, pre_tokenizers, processors

from ropewalk.model.checkpoints.formats.gguf_file import GgufFile
from ropewalk.model.checkpoints.tokenizers.beside import tokenizer_beside
from ropewalk.model.checkpoints.tokenizers.chat_templates import templates_beside, templates_in
from ropewalk.model.checkpoints.tokenizers.gguf import tokenizer_of
from ropewalk.model.checkpoints.tokenizers.spm_codec import BYTE, CONTROL, NORMAL, UNKNOWN, USER
from ropewalk.model.errors import ChatError
from ropewalk.model.progress import finished
from ropewalk.model.tokens.chat import ChatTemplate, Limits, conversation, rendered_steps
from ropewalk.model.tokens.tokenizer import Tokenizer
from tests.model.checkpoints.fetch import FILE

TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
CHATML = (
    "{% for message in messages %}{% if loop.first and message['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou answer.<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
LLAMA3 = """{{- bos_token }}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\nToday is " + strftime_now("%Y") + "\\n\\n" }}
{{- system_message + "<|eot_id|>" }}
{%- for message in messages %}
    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""
MISTRAL = (
    "{{ bos_token }}{% for message in messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
    "{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}"
    "{% else %}{{ message['content'] + eos_token }}{% endif %}{% endfor %}"
)
ODDITIES = """
{%- macro said(turn) %}{{ turn | tojson(indent=2) }}{% endmacro %}
{% for turn in messages %}
    {% if loop.index0 > 3 %}{% break %}{% endif %}
    {% generation %}{{ said(turn) }}{% endgeneration %}
    {{ turn.content | upper }}{{ missing }}
{% endfor %}
{{ {"z": "<é>", "a": [1, none, true]} | tojson }}
{%- set ns = namespace(n=0) %}{% for c in "abc" %}{% set ns.n = ns.n + loop.index %}{% endfor %}{{ ns.n }}
"""
THINKING = """
{%- if tools %}
    {{- '<|im_start|>system\\n' }}{% for tool in tools %}{{ tool | tojson }}{% endfor %}{{- '<|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(asked=messages|length - 1) %}
{%- for turn in messages[::-1] %}
    {%- if turn.role == 'user' and turn.content is string and not turn.content.startswith('<tool>') %}
        {%- set ns.asked = (messages|length - 1) - loop.index0 %}{% break %}
    {%- endif %}
{%- endfor %}
{%- for turn in messages if turn.role != 'system' %}
    {%- set content = turn.content.split('</think>')[-1].lstrip('\\n') if turn.role == 'assistant' else turn.content %}
    {{- '<|im_start|>' + turn.role + '\\n' + content + '<|im_end|>' + '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}{% if enable_thinking is not defined %}{{- '<think>\\n\\n</think>\\n' }}{% endif %}
{%- endif %}
"""
WRITTEN = {"ChatML": CHATML, "Llama 3": LLAMA3, "Mistral": MISTRAL, "thinking": THINKING, "oddities": ODDITIES}
PROMPTS = ("What turns?", "  <b>spaces</b> & 'quotes'\n", "你好 👍 שלום")


def render(source: str, user: str = "hi", system: str = "", limits: Limits | None = None) -> str:
    template = ChatTemplate(source, tokens=TOKENS)
    return finished(rendered_steps(template, conversation(user, system), limits))


def bytes_tokenizer() -> tokenizers.Tokenizer:
    """Bytes, some special tokens, and a BOS that is put before a text."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = tokenizers.Tokenizer(models.BPE({letter: i for i, letter in enumerate(alphabet)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(["<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|eot_id|>"])
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", backend.token_to_id("<s>"))]
    )
    return backend


def folder_of(folder: Path, config: Mapping[str, Any], **files: str) -> Path:
    bytes_tokenizer().save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


# As transformers does it ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "system"),
    [
        pytest.param(name, system, marks=pytest.mark.slow if system and name != "thinking" else ())
        for name in WRITTEN
        for system in ("", "Be brief.")
        if not (system and name == "Mistral")
    ],
)
def test_the_text_and_its_ids_are_those_of_transformers(name: str, system: str, tmp_path: Path) -> None:
    config = {**TOKENS, "chat_template": WRITTEN[name], "tokenizer_class": "PreTrainedTokenizerFast"}
    folder = folder_of(tmp_path, config)
    theirs = transformers.PreTrainedTokenizerFast.from_pretrained(str(folder))
    ours = tokenizer_beside(folder)
    assert ours is not None
    for prompt in PROMPTS if name == "ChatML" and not system else PROMPTS[-1:]:
        messages = list(conversation(prompt, system))
        text = finished(rendered_steps(ours.chats[0], messages))
        assert text == theirs.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        expected = theirs.apply_chat_template(messages, tokenize=True, add_generation_prompt=True)["input_ids"]
        ids = ours.encode(text, add_special=False, names_special=True)
        assert ids == expected
        assert [token.text for token in ours.describe(ids)].count("<s>") == text.count("<s>") <= 1


def test_the_marks_of_a_turn_are_special_tokens(tmp_path: Path) -> None:
    config = {**TOKENS, "chat_template": THINKING, "tokenizer_class": "PreTrainedTokenizerFast"}
    ours = tokenizer_beside(folder_of(tmp_path, config))
    assert ours is not None
    text = finished(rendered_steps(ours.chats[0], conversation("hi", "Be brief.")))
    ids = ours.encode(text, add_special=False, names_special=True)
    marked = [token.text for token in ours.describe(ids) if token.kind == "special"]
    assert marked == ["<|im_start|>", "<|im_end|>"] * 2 + ["<|im_start|>"]
    assert ours.decode(ids) == text


@pytest.mark.skipif(not FILE.is_file(), reason="the model is not fetched: python -m tests.model.checkpoints.fetch")
def test_a_gguf_file_brings_its_template() -> None:
    tokenizer = tokenizer_of(GgufFile(FILE).metadata, FILE.name)
    assert tokenizer is not None
    text = finished(rendered_steps(tokenizer.chats[0], conversation("Hello")))
    assert text.endswith("<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n")
    ids = tokenizer.encode(text, add_special=False, names_special=True)
    assert [token.text for token in tokenizer.describe(ids) if token.kind == "special"].count("<|im_start|>") == 3
    assert tokenizer.decode(ids) == text


# Where templates are found --------------------------------------------------------------------------------------------


def test_a_file_of_its_own_comes_before_the_config(tmp_path: Path) -> None:
    folder = folder_of(
        tmp_path,
        {"bos_token": {"content": "<s>"}, "chat_template": [{"name": "default", "template": "config"},
                                                            {"name": "rag", "template": "R"}]},
        **{"chat_template.jinja": "file", "additional_chat_templates__tool.jinja": "T"},
    )  # fmt: skip
    found = templates_beside(folder)
    assert [(one.name, one.source) for one in found] == [("default", "file"), ("rag", "R"), ("tool", "T")]
    assert found[0].tokens == {"bos_token": "<s>"}
    (folder / "chat_template.jinja").unlink()
    assert templates_beside(folder)[0].source == "config"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_in_the_place_of_a_template_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "chat_template.jinja")
    os.mkfifo(tmp_path / "tokenizer_config.json")
    found: list[object] = []
    # on a thread that can be given up: whoever opens a pipe without asking waits for ever
    reader = threading.Thread(target=lambda: found.append(templates_beside(tmp_path)), daemon=True)
    reader.start()
    reader.join(20)
    assert found == [()]


def test_other_spellings_are_read(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, {}, **{"chat_template.json": '{"chat_template": "P"}'})
    assert [one.source for one in templates_beside(folder)] == ["P"]
    (folder / "tokenizer_config.json").write_text('{"chat_template": {"default": "D"}, "add_bos_token": true}')
    assert [(one.source, dict(one.tokens)) for one in templates_beside(folder)] == [("D", {})]
    metadata = {"tokenizer.chat_template": "G", "tokenizer.chat_template.tool_use": "U", "tokenizer.chat_templates": []}
    assert [(one.name, one.source) for one in templates_in(metadata, {})] == [("default", "G"), ("tool_use", "U")]


@pytest.mark.parametrize(
    "config", ["{", "[]", "[" * 100_000, '{"chat_template": 7}', '{"chat_template": "  "}', "\udcff"]
)
def test_what_cannot_be_read_is_no_template(config: str, tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_bytes(config.encode("utf-8", "surrogateescape"))
    assert templates_beside(tmp_path) == ()


# SentencePiece --------------------------------------------------------------------------------------------------------


def test_named_special_tokens_are_special_in_sentencepiece_too() -> None:
    pieces = ["<unk>", "<s>", "</s>", "[INST]", "▁hi", "▁", "h", "i", "hi", "<0x0A>", "s", "<", ">"]
    kinds = [UNKNOWN, CONTROL, CONTROL, USER, NORMAL, NORMAL, NORMAL, NORMAL, NORMAL, BYTE, NORMAL, NORMAL, NORMAL]
    metadata = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": pieces,
        "tokenizer.ggml.token_type": np.array(kinds),
        "tokenizer.ggml.scores": np.arange(len(pieces), dtype=np.float32),
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.chat_template": "{{ bos_token }}[INST] {{ messages[0].content }}{{ eos_token }}hi",
    }
    tokenizer = tokenizer_of(metadata, "a.gguf")
    assert isinstance(tokenizer, Tokenizer)
    text = finished(rendered_steps(tokenizer.chats[0], conversation("hi")))
    assert text == "<s>[INST] hi</s>hi"
    ids = tokenizer.encode(text, add_special=False, names_special=True)
    # llama.cpp puts the space of a beginning after every special token
    assert [pieces[token] for token in ids] == ["<s>", "[INST]", "▁hi", "</s>", "▁hi"]
    assert [token.kind for token in tokenizer.describe(ids)] == ["special", "text", "text", "special", "text"]
    plain = [pieces[token] for token in tokenizer.encode("<s>", add_special=False)]
    assert plain == ["▁", "<", "s", ">"]


# What goes wrong ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("{% for m in %}", "mistake in line 1"),
        ("\n\n{{ messages[ }}", "mistake in line 3"),
        ("{{ raise_exception('Only tools.\nsecond line') }}", "refuses this prompt: Only tools; switch"),
        ("{{ ''.__class__.__mro__ }}", "what a template may not .*__class__.* and was stopped"),
        ("{{ messages.append(1) }}", "what a template may not"),
        ("{{ raise_exception.__globals__['json'] }}", "what a template may not"),
        ("{% include '/etc/passwd' %}", "cannot be applied here"),
        ("{{ nothing.at.all }}", "'nothing' is undefined"),
        ("{% for i in range(1000000000000) %}{% endfor %}", "Range too big"),
        ("{{ 'a' * 10000000000 }}", "more memory than it may have"),
        ("{% set n = namespace(x='aaaa') %}{% for i in range(99) %}{% set n.x = n.x ~ n.x %}{% endfor %}", "memory"),
        ("{% for i in range(99999) %}aaaa{% endfor %}", r"wrote more than 1,002 characters"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "recursion"),
        ("{{ raise_exception('x' * 5000) }}", "x{200}…"),
    ],
)
def test_a_template_that_fails_says_so_in_a_sentence(source: str, words: str) -> None:
    with pytest.raises(ChatError, match=words) as caught:
        render(source, limits=Limits(seconds=30.0, memory=64, characters=1000))
    assert caught.value.sentence.endswith("switch the template off to run the text as it is.")
    assert "\n" not in caught.value.sentence


@pytest.mark.parametrize(
    "source", ["{% for i in range(99999) %}" * 3 + "{% endfor %}" * 3, "{{ 9 ** (9 ** 9) > 1 }}"], ids=["loop", "power"]
)
def test_what_does_not_end_is_stopped(source: str) -> None:
    began = time.monotonic()
    with pytest.raises(ChatError, match=r"more than 0\.5 seconds"):
        render(source, limits=Limits(seconds=0.5, memory=4096))
    assert time.monotonic() - began < 20


def test_rendering_pauses_and_a_cancelled_one_leaves_no_process() -> None:
    before = set(psutil.Process().children())
    loop = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
    steps = rendered_steps(ChatTemplate(loop), conversation("hi"))
    for _ in range(5):
        assert next(steps).what == "Applying the chat template"
    assert set(psutil.Process().children()) - before
    steps.close()
    assert set(psutil.Process().children()) == before


def test_half_a_surrogate_pair_reaches_the_tokenizer_as_it_is() -> None:
    assert render("{{ messages[0].content }}", "a\ud800") == "a\ud800"
