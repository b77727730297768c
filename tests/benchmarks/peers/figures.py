"""Numbers of a measurement as lines of a table, and what each is held to. No torch here."""

from __future__ import annotations

from dataclasses import replace

from tests.benchmarks.peers.process import Numbers
from tests.benchmarks.peers.report import Figure, bytes_written

PREFILL = "Prefill: capture beside a plain fused forward"
MEMORY = "Memory of a run, beyond the weights"
PEERS = "The same attentions from others"
LOOKING = "Looking at one head"
HEADS = "All heads"
DECODING = "Decoding"
LONG = "Long prompts"
SURVEYS = "Surveys"
EAGER = "transformers, eager"
TIME, PEAK = "time to all attentions", "peak memory"
COARSE_SECONDS = 0.1
"""A coarse picture is promised within it."""
SWITCH_SECONDS = {512: 2 / 60, 2048: 0.05}
"""A new head is promised within it, by tokens: two frames, and 50 ms."""
LENS = "TransformerLens"
CAPTURE_AMD = {128: "<= 0.7", 512: "<= 0.75", 2048: "<= 0.9"}
CAPTURE_OTHER = {128: "<= 1.05", 512: "<= 1.05", 2048: "<= 1.05"}
"""What capture is promised at beside transformers' plain forward."""
SURVEY_PEAK = "memory of previous, sink, induction"
TIMES_FASTER, TIMES_SMALLER = ">= 5", ">= 20"
"""What is promised at 2,048 tokens beside whoever gives attentions back as matrices; on AMD six times the speed."""


def prefill(tokens: int, n: Numbers) -> list[Figure]:
    """Capture at once and in slices, beside the plain forward."""
    plain = n["plain"]
    return [
        Figure(PREFILL, "capture", tokens, n["capture"], plain, "plain forward", "s", n["capture"] / plain, "<= 1.1"),
        Figure(
            PREFILL,
            "capture in slices",
            tokens,
            n["streamed"],
            plain,
            "plain forward",
            "s",
            n["streamed"] / plain,
            note=_slices(n),
        ),
    ]


def beside_sdpa(tokens: int, n: Numbers) -> list[Figure]:
    """Capture beside somebody else's plain forward."""
    bars = CAPTURE_AMD if is_amd(n) else CAPTURE_OTHER
    name, note, ratio = "transformers, SDPA", f"products by {n['products']}", n["ratio"]
    return [
        Figure(
            PREFILL, "capture beside it", tokens, n["ours"], n["theirs"], name, "s", ratio, bars.get(tokens, ""), note
        )
    ]


def is_amd(n: Numbers) -> bool:
    """Whether it was measured on a processor whose products MKL, which is torch's, leaves half undone."""
    return "AMD" in n["processor"]


def memory(tokens: int, n: Numbers) -> list[Figure]:
    """What is kept, and what is needed at most."""
    allowed, made_of = n["kept"] + n["plain"], "Q', K', V, lse, logits"
    resident = f"resident memory grew by {bytes_written(n['held'])}"
    kept, predicted = n["kept"] / n["needed"], n["streamed"] / n["predicted"]
    peak = n["capture"] / allowed
    return [
        Figure(MEMORY, "kept", tokens, n["kept"], n["needed"], made_of, "B", kept, "<= 1.02", resident),
        Figure(MEMORY, "peak", tokens, n["capture"], allowed, "kept + plain's peak", "B", peak, "<= 1"),
        Figure(MEMORY, "peak in slices", tokens, n["streamed"], n["predicted"], "predicted", "B", predicted, "<= 1.1"),
    ]


def whole_process(tokens: int, n: Numbers) -> list[Figure]:
    """From a checkpoint on disk to the scores of all heads, process and imports included."""
    what, ratio = "all head scores, whole process", n["ratio"]
    return [Figure(PEERS, what, tokens, n["ours"], n["theirs"], LENS, "s", ratio, "<= 0.5")]


def peer_time(name: str, tokens: int, n: Numbers) -> list[Figure]:
    """Seconds that somebody else takes for all attentions; ours are put beside them later."""
    bar = TIMES_FASTER if tokens == 2048 else ""
    return [Figure(PEERS, TIME, tokens, None, n["seconds"], name, "s", bar=bar)]


def peer_memory(name: str, tokens: int, n: Numbers) -> list[Figure]:
    """Bytes that somebody else needs at most."""
    bar = TIMES_SMALLER if tokens == 2048 else ""
    return [Figure(PEERS, PEAK, tokens, None, n["peak"], name, "B", bar=bar)]


def peer(name: str, tokens: int, n: Numbers) -> list[Figure]:
    """Both."""
    return peer_time(name, tokens, n) + peer_memory(name, tokens, n)


def bertviz(tokens: int, n: Numbers) -> list[Figure]:
    """Seconds and bytes of BertViz's two pages."""
    return [
        Figure(
            PEERS,
            view.replace("_", " "),
            tokens,
            None,
            n[view],
            "BertViz",
            "s",
            note=f"a page of {bytes_written(n[f'{view}_bytes'])}, peak {bytes_written(n[f'{view}_peak'])}",
        )
        for view in ("head_view", "model_view")
    ]


def beside_ours(found: list[Figure]) -> list[Figure]:
    """Put our own numbers beside the peers', which were measured in other processes."""
    ours: dict[str, dict[int, float | None]] = {
        TIME: {one.tokens: one.ours for one in found if (one.section, one.what) == (PREFILL, "capture")},
        PEAK: {one.tokens: one.ours for one in found if (one.section, one.what) == (MEMORY, "peak")},
        SURVEY_PEAK: {one.tokens: one.ours for one in found if one.what == SURVEY_PEAK and one.ours},
    }

    def completed(one: Figure) -> Figure:
        mine = ours.get(one.what, {}).get(one.tokens)
        return replace(one, ours=mine, ratio=one.peer / mine) if one.what in ours and mine and one.peer else one

    return [completed(one) for one in found]


def survey(tokens: int, texts: int, n: Numbers) -> list[Figure]:
    """All statistics of one pass beside the SDPA forward."""
    what, note = "all of one pass", f"{texts} texts in a batch"
    ours = n["survey"]
    with_logits, bare = "transformers, SDPA", "transformers, SDPA, without logits"
    ratio, of_bare = n["forward_ratio"], n["without_logits_ratio"]
    return [
        Figure(SURVEYS, what, tokens, ours, n["forward"], with_logits, "s", ratio, ">= 0.6", note),
        Figure(SURVEYS, what, tokens, ours, n["without_logits"], bare, "s", of_bare, note=note),
    ]


def survey_loop(name: str, tokens: int, texts: int, n: Numbers) -> list[Figure]:
    """Three statistics beside a loop over somebody else's attentions."""
    note, what = f"{texts} texts in a batch", "previous, sink, induction"
    return [Figure(SURVEYS, what, tokens, n["survey"], n["loop"], name, "s", n["loop_ratio"], ">= 3", note)]


def survey_memory(tokens: int, texts: int, n: Numbers) -> list[Figure]:
    """Bytes of a survey at most."""
    note = f"{texts} texts in a batch"
    return [
        Figure(SURVEYS, SURVEY_PEAK, tokens, n["three"], unit="B", note=note),
        Figure(SURVEYS, "memory of all of one pass", tokens, n["all"], unit="B", note=note),
    ]


def survey_memory_of(name: str, tokens: int, texts: int, n: Numbers) -> list[Figure]:
    """Bytes of a loop at most; ours are put beside them later."""
    note = f"{texts} texts in a batch"
    return [Figure(SURVEYS, SURVEY_PEAK, tokens, None, n["peak"], name, "B", bar=">= 10", note=note)]


def pictures(tokens: int, n: Numbers) -> list[Figure]:
    """A coarse picture, and all of it, beside the barest arithmetic."""
    bare, name = n["bare"], "bare matmul + exp + max"
    coarse, refined, raw = n["coarse"] / COARSE_SECONDS, n["refined"] / bare, n["with_raw"] / bare
    return [
        Figure(LOOKING, "coarse picture", tokens, n["coarse"], COARSE_SECONDS, "promised", "s", coarse, "<= 1"),
        Figure(LOOKING, "full refinement", tokens, n["refined"], bare, name, "s", refined, "<= 1.3", _slices(n)),
        Figure(LOOKING, "with scores before the mask", tokens, n["with_raw"], bare, "the same half", "s", raw),
    ]


def heads(tokens: int, n: Numbers) -> list[Figure]:
    """A switch to another head, and all thumbnails with their scores."""
    promised = SWITCH_SECONDS[tokens]
    ratio = n["switch"] / promised
    return [
        Figure(HEADS, "a head's tile", tokens, n["switch"], promised, "promised for all", "s", ratio, "<= 1"),
        Figure(HEADS, "thumbnails and scores", tokens, n["atlas"], unit="s", note=_slices(n)),
    ]


def beside_generate(n: Numbers) -> list[Figure]:
    """Tokens a second beside transformers."""
    ratio, name = n["ours"] / n["theirs"], "transformers generate"
    bar = ">= 2.5" if is_amd(n) else ">= 1.5"
    return [Figure(DECODING, "with capture", 128, n["ours"], n["theirs"], name, "tokens/s", ratio, bar)]


def decoding(n: Numbers) -> list[Figure]:
    """Tokens a second beside what memory allows."""
    read = f"{bytes_written(n['weights'])} of weights a token at {bytes_written(n['bandwidth'])} a second"
    ours, limit = n["tokens_a_second"], n["limit"]
    step, summed = n["step"], n["sum"]
    return [
        Figure(DECODING, "share of memory's limit", 128, ours, limit, "limit", "tokens/s", ours / limit, note=read),
        Figure(DECODING, "a step", 128, step, summed, "a sum over the weights", "s", step / summed, "<= 1.4"),
    ]


def many_runs(n: Numbers) -> list[Figure]:
    """Whether memory stays flat."""
    ratio, name = n["most_later"] / n["after_ten"], f"after the tenth of {n['runs']}"
    return [Figure(MEMORY, "resident, most", 0, n["most_later"], n["after_ten"], name, "B", ratio, "<= 1.05")]


def long(tokens: int, n: Numbers) -> list[Figure]:
    """One long prompt in slices."""
    share, coarse = n["peak"] / n["predicted"], n["coarse"] / COARSE_SECONDS
    return [
        Figure(LONG, "capture in slices", tokens, n["seconds"], unit="s", note=_slices(n)),
        Figure(LONG, "peak memory", tokens, n["peak"], n["predicted"], "predicted", "B", share, "<= 1.1"),
        Figure(LONG, "kept", tokens, n["kept"], unit="B"),
        Figure(LONG, "a decode step", tokens, n["step"], unit="s"),
        Figure(LONG, "coarse picture", tokens, n["coarse"], COARSE_SECONDS, "promised", "s", coarse, "<= 1"),
    ]


def _slices(n: Numbers) -> str:
    median, nearly_all, longest = (1e3 * n[key] for key in ("slice_median", "slice_95", "slice_longest"))
    return f"slices: median {median:.0f}, 95 % under {nearly_all:.0f}, longest {longest:.0f} ms"
