r"""How a byte-pair vocabulary of a GGUF file cuts a text before it merges, by the name in ``tokenizer.ggml.pre``.

Names, regular expressions and what goes with them are those of llama.cpp's ``llama-vocab.cpp``. Three of its rules are
code there and expressions here: digits in groups of three from the right (``afmoe``), and the words of Kimi K2, which
hold no Han character.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Splitter:
    """One rule.

    Attributes
    ----------
    patterns
        Regular expressions, each at work on what those before it cut: what matches and what lies between are parts.
    whole_words
        Whether a part that is a token is taken whole before anything is merged.
    begins
        Whether the token that begins a text is put there where the file does not say.
    spaced
        Whether a space is written ``▁`` and a byte without a piece ``<0x0A>``, instead of GPT-2's alphabet of bytes.
    """

    patterns: tuple[str, ...]
    whole_words: bool = False
    begins: bool = False
    spaced: bool = False


_ENDINGS = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
_WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_SIGNS = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
_BLANKS = r"\s+(?!\S)|\s+"
_REST = rf"{_SIGNS}|\s*[\r\n]+|{_BLANKS}"
_CASED = (
    r"[^\r\n\p{L}\p{N}]?((?=[LETTER])([^a-z]))*((?=[LETTER])([^A-Z]))+ENDING|"
    r"[^\r\n\p{L}\p{N}]?((?=[LETTER])([^a-z]))+((?=[LETTER])([^A-Z]))*ENDING|"
)
"""Words that go from upper to lower case, and know no case but that of A to Z."""
_UPPER, _LOWER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
_UNICODE_CASED = (
    rf"[^\r\n\p{{L}}\p{{N}}]?[{_UPPER}]*[{_LOWER}]+{_ENDINGS}?|[^\r\n\p{{L}}\p{{N}}]?[{_UPPER}]+[{_LOWER}]*{_ENDINGS}?"
)
_PATHS = rf" ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|\s*[\r\n]+|{_BLANKS}"
_CJK = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
_SENTENCES = " ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"
_ASCII_SIGNS = r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]"
_MARKED = rf"{_ASCII_SIGNS}[A-Za-z]+|[^\r\n\p{{L}}\p{{P}}\p{{S}}]?[\p{{L}}\p{{M}}]+| ?[\p{{P}}\p{{S}}]+"
_CASED_LETTERS = (
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373\u0376"
    "\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f"
    "\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77"
    "\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d"
    "\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4"
    "\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139"
    "\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d"
    "\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a"
    "\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2"
    "\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943"
)
"""Letters that have a case, as DeepSeek's files list them."""
_ASIAN = (
    "[\u4e00-\u9fff\u3400-\u4dbf\uf900-\ufaff\u3040-\u309f\u30a0-\u30ff\uff65-\uff9f\u2f00-\u2fdf\u0e40-\u0e7f"
    "\u0e80-\u0eff\u1780-\u17ff\u1000-\u109f\uaa60-\uaa7f\ua9e0-\ua9ff\uac00-\ud7af\u1100-\u11ff]+"
)
_NOT_HAN = r"&&[^\p{Han}]"
_KIMI = (
    rf"\p{{Han}}+|[^\r\n\p{{L}}\p{{N}}]?[{_UPPER}{_NOT_HAN}]*[{_LOWER}{_NOT_HAN}]+{_ENDINGS}?|"
    rf"[^\r\n\p{{L}}\p{{N}}]?[{_UPPER}{_NOT_HAN}]+[{_LOWER}{_NOT_HAN}]*{_ENDINGS}?|\p{{N}}{{1,3}}|{_REST}"
)

_GPT2 = Splitter((r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)",))
_DIGITS = Splitter((r"\p{N}", *_GPT2.patterns))
_LLAMA3 = Splitter((rf"{_ENDINGS}|{_WORD}|\p{{N}}{{1,3}}|{_REST}",))
_QWEN2 = Splitter((rf"{_ENDINGS}|{_WORD}|\p{{N}}|{_REST}",))
_GPT4O = Splitter((
    _CASED.replace("LETTER", r"\p{L}").replace("ENDING", f"{_ENDINGS}?") + rf"\p{{N}}{{1,3}}|{_PATHS}",
))  # fmt: skip
_TEKKEN = Splitter((_CASED.replace("LETTER", r"\p{L}").replace("ENDING", "") + rf"\p{{N}}|{_PATHS}",))
_DEEPSEEK3 = Splitter((r"\p{N}{1,3}", _CJK, rf"{_MARKED}[\r\n]*|\s*[\r\n]+|{_BLANKS}"))
_TINY_AYA = Splitter((r"\d{1,3}(?=(?:\d{3})*\b)", rf"{_UNICODE_CASED}|\p{{N}}{{1,3}}|{_PATHS}"))
_BAILING = Splitter((
    rf"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|{_WORD}|\p{{N}}|{_SIGNS}|\s*[\r\n]|{_BLANKS}",
))  # fmt: skip
_CASCADE = "|".join(rf"\s{{{count}}}(?!\S)" for count in (512, 256, 128, 64, 32, 16, 8, 4, "1,2"))
_LINES = Splitter((r"[^\n]+|[\n]+",), spaced=True)

_NAMES: Mapping[Splitter, str] = {
    _GPT2: "gpt-2 phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum modern-bert jina-v1-en "
    "jina-v2-code roberta-bpe mpt olmo jais exaone4 trillion granite-docling",
    _DIGITS: "starcoder refact command-r smollm codeshell exaone minerva-7b mellum2",
    replace(_LLAMA3, whole_words=True, begins=True): "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 "
    "lfm2 jina-v5-nano",
    _LLAMA3: "dbrx smaug-bpe chatglm-bpe glm4",
    _QWEN2: "qwen2 deepseek-r1-qwen kormo f2llmv2 stablelm2 hunyuan megrez grok-2 solar-open",
    _GPT4O: "gpt-4o llama4 kanana2 talkie minimax-m2",
    _DEEPSEEK3: "deepseek-v3 hunyuan-dense hy_v4 joyai-llm",
    _TINY_AYA: "tiny_aya cohere2moe",
    _BAILING: "bailingmoe bailingmoe2 llada-moe",
    Splitter((_SENTENCES,)): "poro-chat bloom gpt3-finnish",
    replace(_LINES, begins=True): "gemma4 granite-embed-multi-311m",
    _LINES: "sarvam-moe",
}
SPLITTERS: Mapping[str, Splitter] = {
    **{name: splitter for splitter, names in _NAMES.items() for name in names.split()},
    "default": Splitter((r"[\p{P}\$\+<=>\^~\|]+", *_GPT2.patterns, r"\p{N}+", r"[0-9][0-9][0-9]")),
    "falcon": Splitter((r"[\p{P}\$\+<=>\^~\|`]+", *_GPT2.patterns, r"[0-9][0-9][0-9]")),
    "tekken": replace(_TEKKEN, whole_words=True, begins=True),
    "jais-2": Splitter((
        rf"{_ENDINGS}|{_WORD}|\p{{N}}{{1,3}}|{_SIGNS}|\s*[\r\n]+|{_CASCADE}|\s{{1}}",
    )),
    "minicpm5": Splitter((r"\p{N}{1,3}", rf"{_ENDINGS}|{_WORD}|\p{{N}}+|{_REST}"), whole_words=True),
    "deepseek-llm": Splitter((
        r"[\r\n]", rf"\s?[{_CASED_LETTERS}]+", "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
        r"\s+$", "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+", r"\p{N}+",
    )),
    "deepseek-coder": Splitter((
        r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+", r"\p{N}",
    )),
    "spark2_5": Splitter((r"\p{N}{1,3}", _CJK, rf"{_MARKED}|[\r\n]|{_BLANKS}", r"\p{N}")),
    "youtu": Splitter((
        "[\uac00-\ud7a3\u3131-\u318e]+|[\uff01\u2026\u201c\u201d\u2018\u2019\u2014\uff1a\uff1b\uff0c\u3001-\u303f"
        f"\ufe30-\ufe4f]+|[\u3105-\u312f]+|{_CJK}",
        rf"{_UNICODE_CASED}|\p{{N}}|{_PATHS}",
    ), whole_words=True),
    "qwen35": Splitter((
        rf"{_ENDINGS}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|"
        rf"\s*[\r\n]+|{_BLANKS}",
    )),
    "viking": Splitter((_SENTENCES, r"\p{N}")),
    "chameleon": Splitter((
        r"<sentinel:[0-9]+>", r"(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", r"([\t\n]|    |  )", r"\p{N}",
        r"[\p{P}!-/:-@\[-`{-~]", *_GPT2.patterns,
    ), begins=True),
    "granite-embed-multi-97m": Splitter((
        _CASED.replace("LETTER", r"\p{L}\p{M}").replace("ENDING", f"{_ENDINGS}?") + rf"\p{{N}}{{1,3}}|{_PATHS}",
    ), whole_words=True),
    "kimi-k2": Splitter((_KIMI,)),
    "superbpe": Splitter((r"\p{N}+", r"(?=(\d{3})+(?!\d))")),
    "seed-coder": Splitter((
        rf"{_ENDINGS}|{_WORD}|\p{{N}}{{1}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|\s*[\r\n]+|{_BLANKS}",
    )),
    "ufakzeka": Splitter((rf"{_WORD}|\p{{N}}|{_REST}",)),
    "afmoe": Splitter((
        r"(?<!\p{N})\p{N}{1,2}(?=(?:\p{N}{3})*(?!\p{N}))|\p{N}{3}", _ASIAN,
        rf"{_MARKED}[\r\n]*|\s*[\r\n]+|{_BLANKS}",
    )),
    "laguna": Splitter((_LINES.patterns[0], *_QWEN2.patterns)),
    "exaone-moe": Splitter((
        rf"{_ENDINGS}|[^\r\n\p{{L}}\p{{N}}]?(?:\p{{L}}\p{{M}}*(?: \p{{L}}\p{{M}}*)*)+|\p{{N}}|"
        rf" ?[^\s\p{{L}}\p{{N}}]+[\r\n/]?|\s*[\r\n]|{_BLANKS}",
    )),
}  # fmt: skip
"""Name → rule."""
