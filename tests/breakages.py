"""Faults of one line, each of which the ordinary tests have to notice: ``make breakages``, or names of some of them.

A new picture, question or rule gets an entry: what would be wrong without anybody seeing it at once. Texts are those of
a formatted file and occur once in it, which ``tests/test_breakages.py`` checks.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from dataclasses import dataclass

from tests.breaking import ROOT, Tree, trees

CAUGHT, THROUGH, MISFIT = "caught", "GETS THROUGH", "FITS NO FILE"
MAY_GET_THROUGH = 2
"""Of all entries; ``make breakages`` fails at more."""


@dataclass(frozen=True)
class Breakage:
    """One fault.

    Attributes
    ----------
    name
        What goes wrong.
    path
        The file.
    old, new
        A text that occurs once in it, and what takes its place.
    tests
        The test files that should notice, without ``tests/`` and ``.py``.
    """

    name: str
    path: str
    old: str
    new: str
    tests: tuple[str, ...]

    @property
    def test_paths(self) -> list[str]:
        """The same as paths."""
        return [f"tests/{name}.py" for name in self.tests]

    def applied(self, text: str) -> str:
        """The file's text with the fault in it.

        Raises
        ------
        ValueError
            When the old text does not occur exactly once.
        """
        times = text.count(self.old)
        if times != 1:
            raise ValueError(f"{self.old!r} is there {times} times, but has to be there once")
        return text.replace(self.old, self.new)


def of(path: str, *tests: str) -> _File:
    """Faults of one file, told one after the other."""
    return _File(path, tests)


@dataclass(frozen=True)
class _File:
    path: str
    tests: tuple[str, ...]

    def __call__(self, name: str, old: str, new: str, *tests: str) -> Breakage:
        return Breakage(name, self.path, old, new, tests or self.tests)


ATTENTION = ("model/decoder/test_attention", "model/decoder/test_decoder")
ROPE = ("model/decoder/test_rope",)

attention = of("model/decoder/attention.py", *ATTENTION)
atlas = of("views/plots/atlas.py", "views/panels/test_heads_panel")
blocks = of("model/decoder/decoder.py", "model/decoder/test_decoder", "model/test_moe")
cache = of("model/decoder/cache.py", "model/decoder/test_cache")
checks = of("app/lessons/checks.py", "app/lessons/test_checks")
child_process = of("model/child_process.py", "model/test_child_process", "model/engine/test_stdio")
codec = of("model/codec.py", "model/test_codec")
frames = of("model/engine/frames.py", "model/engine/test_frames")
packing = of("model/engine/packing.py", "model/engine/test_packing")
costs = of("model/decoder/costs.py", "model/decoder/test_costs")
map_box = of("views/plots/maps/map_box.py", "views/plots/maps/test_heatmap")
map_data = of("views/plots/maps/map_data.py", "views/plots/maps/test_heatmap")
levels = of("views/plots/maps/levels.py", "views/plots/maps/test_heatmap", "views/plots/maps/test_levels")
intervening = of("model/decoder/intervention_contexts.py", "model/decoder/test_interventions")
interventions = of("model/decoder/interventions.py", "model/decoder/test_interventions")
connection = of("app/engine/connection.py", "app/engine/test_connection", "app/engine/test_process")
deaths = of("app/engine/deaths.py", "app/engine/test_process")
recovery = of("app/session/recovery.py", "views/test_engine_death")
jobs = of("app/jobs.py", "app/test_jobs")
outbox = of("model/engine/outbox.py", "model/engine/test_outbox")
remote = of("app/engine/remote.py", "app/engine/test_remote")
server = of("model/engine/server.py", "model/engine/test_server")
serving = of("model/engine/serving.py", "model/engine/test_serving")
via_model = of(
    "model/transformers_models/model.py",
    "model/transformers_models/test_model",
    "model/transformers_models/test_parity",
)
via_rules = of("model/transformers_models/rules.py", "model/transformers_models/test_parity")
knobs = of("model/checkpoints/families/knobs.py", "model/checkpoints/families/test_table")
layouts = of("model/checkpoints/families/layouts.py", "model/checkpoints/families/test_table")
maps = of("model/checkpoints/families/weight_maps.py", "model/checkpoints/families/test_table")
misbehaved = of("app/engine/connection.py", "app/engine/test_process")
lens = of("model/readings/lens.py", "model/readings/test_lens")
next_token = of("model/readings/next_token.py", "model/readings/test_next_token")
norms = of("model/decoder/norms.py", "model/decoder/test_norms", "model/decoder/test_attention")
numbers_file = of("app/files/numbers_file.py", "app/files/test_exporting")
operations = of("model/ledger/operations.py", "model/ledger/test_ledger")
panel = of(
    "views/panels/panel.py", "views/panels/test_panel", "views/panels/test_heads_panel", "views/test_late_panels"
)
patterns = of("model/readings/patterns.py", "model/readings/test_patterns")
progress = of("app/lessons/progress.py", "app/lessons/test_progress")
quick_step = of("model/decoder/quick_step.py", "model/decoder/test_quick_step")
products = of("model/decoder/products.py", "model/decoder/test_products")
choice = of("model/decoder/product_choice.py", "model/decoder/test_products")
reducer = of("model/readings/reducer.py", "model/readings/test_tiles")
rope = of("model/decoder/rope.py", *ROPE)
score_blocks = of("model/readings/score_blocks.py", "model/readings/test_tiles")
scores = of("model/decoder/scores.py", *ATTENTION)
selection = of("app/session/selection.py", "app/session/test_selection")
session = of("app/session/session.py", "app/session/test_session")
session_file = of("app/files/session_file.py", "app/files/test_session_file")
slabs = of("views/plots/slabs.py", "views/panels/test_cache_panel")
spm = of("model/checkpoints/tokenizers/spm_codec.py", "model/checkpoints/tokenizers/test_beside")
stage = of("views/stage/stage.py", "views/stage/test_stage", "views/test_lesson_leaving")
tree_ = of("views/stage/tree.py", "views/stage/test_tree")
timeline = of("app/session/timeline.py", "app/session/test_session")
survey_folder = of("model/survey/folder.py", "model/survey/test_folder")
survey_statistics = of("model/survey/statistics.py", "model/survey/test_statistics", "model/survey/test_survey")
surveys = of("app/session/surveys.py", "app/session/test_surveys", "views/test_surveying")
tokenizer = of("model/tokens/tokenizer.py", "model/tokens/test_tokenizer")
gguf_tokenizer = of("model/checkpoints/tokenizers/gguf.py", "model/checkpoints/test_gguf_tokenizers")
turned_map = of("views/plots/maps/turned_map.py", "views/plots/maps/test_turned_map")
dial = of("views/plots/rotation/dial.py", "views/plots/rotation/test_dial")
hands = of("views/plots/rotation/hands.py", "views/plots/rotation/test_dial")
turning = of(
    "views/plots/rotation/turning.py",
    "views/plots/rotation/test_dial",
    "views/panels/test_rope_panel",
    "views/every_model/test_rotation",
)
trace = of("model/runs/trace.py", "model/runs/test_trace")
trace_file = of("model/trace_files/trace_file.py", "model/trace_files/test_trace_file")
saved_runs = of("model/engine/saved_runs.py", "model/engine/test_saved_runs")
whole_file = of("model/whole_file.py", "model/test_whole_file")
wording = of("views/style/wording.py", "views/style/test_wording")

BREAKAGES = (
    # Trace files
    trace_file(
        "a trace forgets its interventions",
        "        interventions=header.interventions or (),",
        "        interventions=(),",
    ),
    trace_file(
        "a trace is read when it is opened", "Rows.of(file.get_tensor(name))", "Rows.of(file.get_tensor(name) + 0)"
    ),
    trace_file("ids outside the vocabulary are taken", "not 0 <= int(ids.min())", "not -9 <= int(ids.min())"),
    trace_file("a segment may miss rows", "joined and bounds[-1] == rows", "joined"),
    saved_runs("any checkpoint is attached", "if found != origin.fingerprint:", "if False:"),
    saved_runs("the options of a checkpoint are forgotten", "dict(origin.options) | dict(", "dict() | dict("),
    saved_runs(
        "what may follow in a trace is shown by numbers",
        "self._known = {token.id: token for token in about.candidates}",
        "self._known = dict[int, TokenText]()",
        "app/test_engine",
    ),
    saved_runs("another prompt of several is shown", "alone(file.trace, shown - 1)", "alone(file.trace, 0)"),
    of("views/panels/panel.py", "views/test_traces_in_the_window")(
        "what a run lacks is offered all the same", "    button.setEnabled(not why and on)", "    button.setEnabled(on)"
    ),
    of("views/panels/panel.py", "views/test_traces_in_the_window")(
        "nothing is attached from a panel",
        "        self.attach_button.clicked.connect(self.attach_wanted)\n",
        "",
    ),
    of("views/panels/compare.py", "views/test_traces_in_the_window")(
        "a comparison that failed leaves another sentence",
        "        if unanswered and self._refused:",
        "        if False:",
    ),
    of("views/panels/interventions.py", "views/panels/test_lacking")(
        "what transformers cannot change is offered", "CHANGES if name in ANYWHERE else (*CHANGES, INSIDE)", "CHANGES"
    ),
    of("model/engine/interface.py", "model/engine/test_saved_runs")(
        "logits that were not kept are read", "row < handle.run.first_logit_row:", "row < 0:"
    ),
    of("model/readings/comparison.py", "model/readings/test_comparison")(
        "texts without a common token are compared", "if not any(None not in pair for pair in rows):", "if False:"
    ),
    # Attention
    scores("the mask hides the diagonal", "seen = keys <= queries", "seen = keys < queries"),
    scores("a window is a key too wide", "keys > queries - spec.window", "keys >= queries - spec.window"),
    scores("the scale is left out of pairs", ".sum(-1) * spec.scale", ".sum(-1)", "model/runs/test_layer_trace"),
    scores("the soft cap is left out", "if cap is None:", "if cap is None or cap:"),
    scores(
        "padding is ignored",
        "return seen if padding is None else seen & padding",
        "return seen if True else seen & padding",
    ),
    scores("a window's first key is left out", "rows[0] - spec.window + 1)", "rows[0] - spec.window + 2)"),
    of("model/decoder/config.py", "model/decoder/test_config", *ATTENTION)(
        "scores are divided by Dh", "1.0 / math.sqrt(self.head_width)", "1.0 / self.head_width"
    ),
    of("model/decoder/spec.py", "model/runs/test_layer_trace", "model/readings/test_readout")(
        "kv heads take turns instead of groups", "head // (self.heads // self.kv_heads)", "head % self.kv_heads"
    ),
    attention(
        "V is repeated in turns",
        "value.repeat_interleave(query.shape[1] // value.shape[1], dim=1)",
        "value.repeat(1, query.shape[1] // value.shape[1], 1, 1)",
    ),
    attention("the sink's share is left out", "if sinks is not None:\n        total", "if False:\n        total"),
    attention(
        "parts are merged by the larger sum", "lse = torch.logaddexp(lse_a, lse_b)", "lse = torch.maximum(lse_a, lse_b)"
    ),
    attention("a fully masked row has an lse of −∞", "lse.masked_fill(lse == -math.inf, math.inf))", "lse)"),
    attention("real rows are counted without their own key", "(real.cumsum(-1) > 0)", "(real.cumsum(-1) > 1)"),
    attention(
        "keys are normed with the query's gain", "self.key_norm(k)", "self.query_norm(k)", "model/decoder/test_norms"
    ),
    norms(
        "LayerNorm does not centre",
        "return wide - wide.mean(-1, keepdim=True)",
        "return wide - 0 * wide.mean(-1, keepdim=True)",
    ),
    norms(
        "the stored gain is taken without its offset",
        "normed = normed * (self.weight.float() + self.offset)",
        "normed = normed * self.weight.float()",
    ),
    # Rotation
    rope(
        "half-split pairs turn the other way",
        "torch.addcmul(first * cos, second, sin, value=-1)",
        "torch.addcmul(first * cos, second, sin)",
    ),
    rope(
        "adjacent pairs turn the other way",
        "first * cos - second * sin, second * cos + first * sin",
        "first * cos + second * sin, second * cos - first * sin",
    ),
    rope("planes pair neighbours", "return [(i, i + width // 2)", "return [(i, i + 1)"),
    rope(
        "frequencies fall twice as fast",
        "torch.arange(0, width, 2, dtype=torch.float32",
        "torch.arange(0, 2 * width, 4, dtype=torch.float32",
    ),
    rope(
        "linear scaling stretches nothing",
        "return _plain(rope.base, width) / rope.factor, 1.0",
        "return _plain(rope.base, width), 1.0",
    ),
    rope("NTK grows by another power", "growth ** (width / (width - 2))", "growth ** (width / (width + 2))"),
    rope("YaRN's ramp is turned round", "slow * ramp + fast * (1 - ramp)", "fast * ramp + slow * (1 - ramp)"),
    rope("YaRN's factor of attention is left out", "0.1 * weight * math.log(rope.factor) + 1.0", "1.0"),
    rope("Llama 3 stretches short wavelengths", "theta / rope.factor, blended)", "theta, blended)"),
    rope("features past d_rot are lost", "parts.append(x[..., width:])", "parts.append(0 * x[..., width:])"),
    rope("undoing a rotation forgets the factor", "-sin / factor**2, pairing)", "-sin / factor, pairing)"),
    knobs("a share of the head rotates all of it", "int(head_width * share)", "int(head_width)"),
    # Blocks
    blocks("chosen experts' shares do not sum to 1", "if self.moe.renormalise:", "if False:"),
    blocks(
        "what a block adds is not scaled",
        "added if self.residual_scale == 1.0 else",
        "added if True else",
        "model/decoder/test_decoder",
        "model/checkpoints/test_parity",
    ),
    blocks(
        "logits are not capped",
        "if c.logit_cap is not None:",
        "if False:",
        "model/decoder/test_decoder",
        "model/checkpoints/test_parity",
    ),
    quick_step("a quick step sees all before the window", "keys[:, -window:], values[:, -window:]", "keys, values"),
    products("oneDNN adds instead of multiplying", '*up, "mul")', '*up, "add")'),
    products("a product goes to a library under gradients", "or torch.is_grad_enabled() or", "or"),
    products("half precision goes to a library", "one.dtype is torch.float32 and ", ""),
    products("a few rows are multiplied as many", "if rows < MANY_ROWS else", "if rows < 0 else"),
    choice(
        "nobody asks whether a step is right",
        "    if len(x) == 1:\n        out = ",
        "    if len(x) < 1:\n        out = ",
    ),
    choice("a library that is wrong is timed", "            if all(is_right", "            if True or all(is_right"),
    choice("what torch was measured with does not matter", "torch.__version__, np", "np"),
    choice(
        "a run is compared with one by another library",
        ".setdefault(hash(tuple(ids)), products)",
        " and products or products",
    ),
    products("oneDNN makes code for every number of rows", "    return -(-rows // step) * step", "    return rows"),
    choice("a library takes torch's place for nothing", "WORTH = 0.95", "WORTH = 1.0"),
    of("model/runs/trace.py", "model/decoder/test_products")(
        "a decode step forgets what its run multiplied by",
        "trace.interventions, trace.products, kept",
        "trace.interventions, model.products, kept",
    ),
    quick_step("a quick step turns the other way", "np.stack((-sin, sin), axis)", "np.stack((sin, -sin), axis)"),
    intervening("an intervention stays in the model", "block.attn.rule = kept", "block.attn.rule"),
    intervening("means of ablated heads are mixed up", "intervention.means[place]", "intervention.means[0]"),
    # Runs and the cache
    trace(
        "a decode step stays at the last position",
        "positions = trace.positions[:, -1:] + 1",
        "positions = trace.positions[:, -1:] + 0",
    ),
    trace(
        "a step forgets what the rows before were turned by",
        "(*spec.segments[:-1], replace(last, stop=added.stop))",
        "(added,)",
    ),
    trace("a replay starts a row too far", "self._past = rows[0]", "self._past = rows[0] + 1"),
    cache("branches write over one another", "buffer.used != self.length or end", "end", "model/decoder/test_cache"),
    cache(
        "an appended row lands a row early",
        "buffer.storage.narrow(2, self.length, count)",
        "buffer.storage.narrow(2, max(self.length - 1, 0), count)",
    ),
    cache(
        "an earlier view is a row short",
        "return Rows(self._buffer, length)",
        "return Rows(self._buffer, max(length - 1, 0))",
    ),
    of("model/runs/layer_trace.py", "model/runs/test_layer_trace")(
        "weights are not masked",
        "return weights.masked_fill_(~self.visible(rows, keys, batch=batch), 0.0)",
        "return weights",
    ),
    # The next token
    next_token(
        "top-p leaves out the token that reaches p",
        "before = ordered.cumsum(-1) - ordered",
        "before = ordered.cumsum(-1)",
    ),
    next_token("top-k keeps one more", "wide.topk(sampling.top_k)", "wide.topk(sampling.top_k + 1)"),
    next_token(
        "temperature multiplies",
        "(wide - wide.max()) / sampling.temperature",
        "(wide - wide.max()) * sampling.temperature",
    ),
    next_token(
        "a token more is kept where p is reached exactly", "before >= sampling.top_p", "before > sampling.top_p"
    ),
    next_token("the seed is ignored", "sampling.seed * SEED_STRIDE + row", "SEED_STRIDE + row"),
    next_token("the token that follows is the row's own", "trace.ids[batch, query + 1])", "trace.ids[batch, query])"),
    # Readings
    of("model/readings/comparison.py", "model/readings/test_comparison")(
        "a difference is A minus B", "head, scores_b - scores_a, weights_b", "head, scores_a - scores_b, weights_b"
    ),
    of("model/readings/readout.py", "model/readings/test_readout")(
        "the heads that share a kv head are the wrong ones",
        "range(kv_head * group, (kv_head + 1) * group)",
        "range(kv_head, kv_head + group)",
    ),
    reducer(
        "a mean counts hidden cells",
        "counts = _visible_counts(self.layer, self.frame)",
        "counts = _cell_counts(self.frame, device)",
    ),
    score_blocks("a window's edge is not masked", "rows[1] - spec.window", "rows[0] - spec.window"),
    score_blocks("hidden cells take a limit of other blocks", "columns[0] - first, columns[1]", "0, columns[1]"),
    of("model/readings/layer_weights.py", "model/readings/test_patterns")(
        "thumbnails read a kv head that is not theirs",
        "heads.setdefault(layer.spec.kv_head_of(head), [])",
        "heads.setdefault(0, [])",
    ),
    patterns("induction looks at the token itself", "keys.append(before + 1)", "keys.append(before)"),
    patterns("induction of tokens twice looks one too far back", "list(range(1, period))", "list(range(period - 1))"),
    patterns("a previous-token head looks at itself", "return rows, rows - 1", "return rows, rows"),
    of("model/readings/board.py", "model/readings/test_board")(
        "the mean of heads is of the largest cells of a pixel",
        '(yield from read("mean")) if found.weights.reduction == "max" else found',
        "found",
    ),
    of("model/readings/board.py", "model/readings/test_board")(
        "the difference of two heads is turned round", "np.array([1.0, -1.0])", "np.array([-1.0, 1.0])"
    ),
    atlas(
        "changes are sorted by their sign", 'np.abs(values.ravel()) if order == "farthest"', "values.ravel() if order"
    ),
    atlas("heads that do not reach a score are those that are kept", "flat[places] >= least", "flat[places] < least"),
    of("app/session/board.py", "app/session/test_board")(
        "all models share one board", 'return "" if is_bundled(card) else card.path or card.name', 'return ""'
    ),
    of("views/panels/board.py", "views/panels/test_board_panel")(
        "the number below a map of scores is a weight",
        "            self.show_hover(self.session.selection.hover)",
        "            pass",
    ),
    of("views/panels/interventions.py", "views/panels/test_interventions_panel")(
        "every change can be undone for ever", "del self._history[:-MOST_CHANGES]", "pass"
    ),
    of("views/panels/interventions.py", "views/panels/test_interventions_panel")(
        "rows are known for ever", "if len(self._unchanged) > MOST_ROWS:", "if False:"
    ),
    of("app/commands/line.py", "app/test_export_command")(
        "a path after options is refused", "elif words and path is None", "elif words and path is not None"
    ),
    of("views/files/recordings.py", "views/test_exporting")(
        "a frame is of what came in the turn before it",
        "    yield point\n    yield is_there\n",
        "    yield is_there\n    yield point\n",
    ),
    of("views/files/parts.py", "views/test_leaving")(
        "a painter outlives its device", "    finally:\n        painter.end()", "    finally:\n        pass"
    ),
    of("views/panels/board.py", "views/panels/test_board_panel")(
        "a click on the board selects a cell and no head",
        'else {"layer": shown.head[0]',
        'else {} and {"layer": shown.head[0]',
    ),
    of("views/panels/head_cards.py", "views/panels/test_board_panel")(
        "maps stand in as few columns as there can be",
        "(sizes[columns][0], -(-self._count % columns), -columns)",
        "-columns",
    ),
    of("views/files/head_figure.py", "views/files/test_head_figure")(
        "a figure shows scores for weights", 'picture.scores if kind == "scores"', 'picture.scores if kind == "weights"'
    ),
    of("model/readings/comparison.py", "model/readings/test_comparison")(
        "statistics move from B to A", "after[name] - before[name]", "before[name] - after[name]"
    ),
    lens("the logit lens leaves the last norm out", "model.finish(streams", "model.head(streams"),
    lens(
        "the logit lens forgets the experiments", "changed_block(block, layer, trace.interventions)", "torch.no_grad()"
    ),
    lens(
        "rows of two rotations are run together",
        "{segment.start for layer in trace for segment in layer.spec.segments}",
        "set[int]()",
    ),
    lens("the logit lens asks about the token itself", "start + 1 : start + 1 + shape", "start : start + shape"),
    of("views/panels/lens.py", "views/panels/test_lens_panel")(
        "the logit lens reads what nobody sees", "self.map.sight_of(run.length, selection.query)", "(0, run.length)"
    ),
    of("views/plots/charts/lens_map.py", "views/panels/test_lens_panel")(
        "a token is written over the cells beside it", "adjusted(2, 0, -2, 0)", "adjusted(-20, 0, 20, 0)"
    ),
    of("model/readings/attribution.py", "model/readings/test_attribution")(
        "what a head is needed for has the wrong sign",
        "rows.logit(ablated, token) - clean",
        "clean - rows.logit(ablated, token)",
    ),
    # Costs and the ledger
    costs(
        "the cache counts K alone",
        "config.layers * heads * config.kv_width",
        "config.layers * heads * config.head_width",
    ),
    costs("a multiply-add counts once", "return 2 * rows * inputs * outputs", "return rows * inputs * outputs"),
    costs(
        "causal pairs leave out the diagonal",
        "tokens * past + tokens * (tokens + 1) // 2",
        "tokens * past + tokens * (tokens - 1) // 2",
    ),
    costs("a tied matrix counts twice", "(0 if config.tied else", "(0 if not config.tied else"),
    costs("binary units turn over at a thousand", "_scaled(float(count), 1024.0", "_scaled(float(count), 1000.0"),
    operations(
        "the ledger's bytes forget the dtype",
        "size = math.prod(shape) * bytes_per_number(dtype)",
        "size = math.prod(shape) * 4",
    ),
    operations("the ledger's letters swap H and Hkv", '"H": config.heads,', '"H": config.kv_heads,'),
    # Checkpoints
    of("model/checkpoints/weights.py", "model/checkpoints/test_files")(
        "tied weights stay apart", "model.head.weight = model.embed.weight", "model.head.weight"
    ),
    maps(
        "gate and up are swapped",
        'mlp__gate="w1", mlp__up="w3"',
        'mlp__gate="w3", mlp__up="w1"',
        "model/checkpoints/formats/test_meta",
    ),
    maps(
        "GPT-2's matrices stay transposed",
        "for name in targets), transposed=True)",
        "for name in targets), transposed=False)",
        "model/checkpoints/families/test_table",
        "model/checkpoints/test_files",
    ),
    layouts(
        "interleaved rows are taken in blocks",
        "return stored[index::count]",
        "return stored.chunk(count)[index]",
        "model/checkpoints/families/test_quantised",
        "model/checkpoints/families/test_table",
    ),
    layouts(
        "key and value of a group are swapped", "slice(-2, -1), slice(-1, None))", "slice(-1, None), slice(-2, -1))"
    ),
    of("model/checkpoints/adapter_merging.py", "model/checkpoints/test_adapters")(
        "an adapter is merged unscaled", ".mul_(change.scale)", ".mul_(1.0)"
    ),
    of("model/checkpoints/adapter_file.py", "model/checkpoints/test_adapters")(
        "an adapter's rank is stabilised the wrong way",
        "alpha / math.sqrt(rank) if self._root else alpha / rank",
        "alpha / rank",
    ),
    of("model/checkpoints/families/inert.py", "model/checkpoints/families/test_inert")(
        "a flag that is off may switch off what the model does",
        "(not value and MATTERS.fullmatch(name) is None)",
        "not value",
    ),
    of("model/decoder/decoder.py", "model/runs/test_ragged")(
        "padding counts as positions",
        "counted = padding[:, : past + tokens].long().cumsum(1) - 1",
        "counted = padding[:, : past + tokens].long().add(1).clamp(max=1).cumsum(1) - 1",
    ),
    of("model/checkpoints/formats/gguf.py", "model/checkpoints/formats/test_gguf")(
        "GGUF's rows stay permuted", ".transpose(1, 2).reshape(rows.shape)", ".reshape(rows.shape)"
    ),
    # Tokens
    spm(
        "the token that begins a text is left out",
        "return [*self._before, *ids, *self._after]",
        "return [*ids, *self._after]",
        "model/checkpoints/test_gguf_tokenizers",
        "model/checkpoints/tokenizers/test_beside",
    ),
    spm("bytes stand for no unknown character", "if -1 not in spelled:", "if -1 in spelled:"),
    tokenizer(
        "what a normalizer composed is refused",
        "missed = [at for at in missed if at not in gone]",
        "missed = [at for at in missed if at in missed]",
    ),
    gguf_tokenizer("BOS is added only where its key is there", "SPLITTERS[name].begins", "False"),
    gguf_tokenizer("a vocabulary without merges spells letters", "if MERGES not in metadata:", "if False:"),
    gguf_tokenizer(
        "<|end|> ends the text of gpt-oss",
        "if others <= by_name.keys()}",
        "if not others}",
    ),
    of("model/checkpoints/tokenizers/splitters.py", "model/checkpoints/test_gguf_tokenizers")(
        "digits go in threes from the left", r"(?<!\p{N})\p{N}{1,2}", r"(?<!\p{N})\p{N}{9}"
    ),
    of("model/tokens/added_tokens.py", "model/checkpoints/tokenizers/test_vocab_and_merges")(
        "tokens are added in the order of their file",
        "for number, token in sorted(self.added.items())",
        "for number, token in self.added.items()",
    ),
    of("model/checkpoints/tokenizers/vocab_and_merges.py", "model/checkpoints/tokenizers/test_vocab_and_merges")(
        "Qwen's text is not composed", "backend.normalizer = normalizers.NFC()", "pass"
    ),
    of("model/checkpoints/formats/hf_folder.py", "model/checkpoints/formats/test_hf_folder")(
        "the config's end goes before that of generation",
        "for part in (said, config, text)",
        "for part in (config, said, text)",
    ),
    of("model/engine/engine.py", "app/test_engine", "app/test_prompt_commands")(
        "decoding runs past the end",
        "        if token in checkpoint.ends and not past_end:\n            break",
        "        pass",
    ),
    timeline("play runs past the end", "(cut or self._queued_steps or self._playing)", "cut"),
    tokenizer(
        "a special token is plain text",
        "Piece(added.content.encode(), added.special)",
        "Piece(added.content.encode(), False)",
    ),
    tokenizer("a character's bytes are no group", "readings[place].group = first.group", "readings[place].group = -1"),
    tokenizer("byte pieces are read as decimals", "bytes([int(match[1], 16)])", "bytes([int(match[1], 36) % 256])"),
    of("model/engine/prompts.py", "app/test_prompts")(
        "special tokens are always added", "add_special=prompt.special", "add_special=True"
    ),
    # Files
    codec("NaN is written as infinity", "return _NotFinite.NAN", "return _NotFinite.POSITIVE"),
    codec(
        "numbers of 65 bits are written", "if not -LIMIT <= value < LIMIT:", "if not -2 * LIMIT <= value < 2 * LIMIT:"
    ),
    packing("an array is taken for another dtype", "if array.dtype != dtype:", "if array.dtype.kind != dtype.kind:"),
    packing("an array is sent once for every place", "place = self._places.get(id(array))", "place = None"),
    of("app/passing.py", "app/test_passing")(
        "a part may be what the whole is", 'REPLIES if kind == "done" else PARTS', "REPLIES"
    ),
    packing("a missing field is taken for its default", "whole=True", "whole=False"),
    packing(
        "half a pair of surrogates is replaced",
        'value.encode("utf-8", "surrogatepass")',
        'value.encode("utf-8", "replace")',
    ),
    frames("arrays follow one another without a gap", "end += -end % ALIGNMENT", "end += 0"),
    frames(
        "a frame may hold more than was announced", "body > self._now.total - self._now.came", "body > self._now.total"
    ),
    frames("the magic is missed between two chunks", "len(self._before) - len(MAGIC) + 1)", "len(self._before))"),
    frames("what never comes to the magic is read for ever", "if len(self._before) > LONGEST_BANNER:", "if False:"),
    frames("what nobody ended is kept without end", "if len(self._halves) > MOST_HALVES or", "if"),
    whole_file(
        "a file has its name before its bytes are on the disk",
        "            os.fsync(written.fileno())",
        "            written.fileno()",
    ),
    of("model/checkpoints/formats/safetensors_files.py", "model/checkpoints/test_wrong_files")(
        "bytes between two tensors are nobody's", "if begin != end:", "if begin < end:"
    ),
    whole_file("half a file is left behind", "part.unlink(missing_ok=True)", "part.exists()"),
    of("views/start.py", "views/test_leaving")(
        "what was copied ends after Python",
        "        session.close()\n        let_go()",
        "        session.close()",
    ),
    of("views/style/lettering.py", "views/style/test_lettering")(
        "every font keeps as many lines as all may", "sum(len(one) for one in _faces.values())", "len(kept)"
    ),
    whole_file(
        "a file is written in its place",
        'part = path.with_name(UNFINISHED.replace("*", name))',
        "part = path.with_name(path.name)",
    ),
    numbers_file(
        "a spreadsheet runs a token", 'return f"\'{text}" if text.startswith(GUARDED) else text', "return text"
    ),
    numbers_file(
        "query and key are swapped in a table",
        "(*asked, *key, score, weight",
        "(*key, *asked, score, weight",
    ),
    of("app/files/provenance.py", "views/files/test_pictures", "app/files/test_exporting")(
        "an export does not say its prompt", 'yield "Prompt", run.prompt', 'yield "Prompt", ""'
    ),
    session_file("a newer session is read all the same", "if version > VERSION:", "if version > VERSION + 1:"),
    of("app/files/session_keeping.py", "app/files/test_session_keeping")(
        "a session forgets how its tokens were drawn", "drawn=kept.drawn,", "drawn=kept.drawn[:0],"
    ),
    of("model/fingerprint.py", "app/files/test_session_keeping")(
        "only the beginning of a checkpoint is looked at",
        "digest.update(stream.read())",
        "digest.update(stream.read(64))",
    ),
    of("app/files/png_file.py", "app/files/test_serving")("a PNG has red for blue", '"raw", "BGRX"', '"raw", "RGBX"'),
    of("app/files/exporting.py", "app/files/test_exporting")(
        "the rest of a trace that cannot be written is fetched", "if incoming.refusal:", "if False:"
    ),
    of("views/main_window.py", "views/window/test_elsewhere")(
        "a file of this machine is opened on another one",
        "elif there := self.session.elsewhere:",
        "elif there := '':",
    ),
    of("app/engine/engines.py", "views/window/test_elsewhere")(
        "a cancelled move leaves its command",
        "self._fresh, self._fresh_command = self._start(command), command",
        "self._fresh, self._fresh_command = self._start(command), command\n            self.command = command",
    ),
    of("views/panels/scores.py", "views/test_engine_elsewhere")(
        "a head's row is asked for when its picture is there",
        "        self._ask_row(selection)  # here",
        "        # here",
    ),
    of("app/files/session_keeping.py", "app/files/test_session_keeping")(
        "a checkpoint that has changed is opened", "if found.fingerprint != wanted.fingerprint:", "if False:"
    ),
    of("app/settings.py", "app/test_settings")(
        "settings are not saved", "        self._write(change, before)\n\n    def opened", "\n    def opened"
    ),
    of("views/files/pictures.py", "views/files/test_pictures")(
        "a PNG has one pixel for each whatever the scale",
        "QImage(math.ceil(size.width() * scale), math.ceil(size.height() * scale),",
        "QImage(size.width(), size.height(),",
    ),
    # Models that transformers runs
    via_rules("a mask that no rule says is taken for causal", "differ = said != visible", "differ = said & ~said"),
    via_rules("a bias is left out of the log-sum-exp", "scores += mask.bias[:, :, rows]", "scores += 0"),
    via_rules("a decoded row's bias is forgotten", "new = seen.bias if seen.bias is not None else", "new = None or"),
    via_model("heads are ablated in every layer", "            if one.layer != layer:", "            if False:"),
    via_model(
        "a model is left in evaluation mode",
        "            module.training = True",
        "            module.training = False",
    ),
    via_model("attention to an encoder is shown", "        if _is_cross(call.module, path):", "        if False:"),
    via_model(
        "a cache is gone on with that holds other rows",
        "if self._going is None or not _same_rows(self._going.trace, trace):",
        "if self._going is None:",
    ),
    via_model(
        "a trace that says less is believed", "    if math.isfinite(largest) and not far <=", "    if False and far >"
    ),
    of("model/transformers_models/attention.py", "model/transformers_models/test_model")(
        "a model is left switched",
        "            for config, name in before:\n                config._attn_implementation_internal = name",
        "            pass",
    ),
    of("model/runs/mask.py", "model/transformers_models/test_model")(
        "the bias of a shorter run has all its rows", "self.bias[..., :length, :length]", "self.bias"
    ),
    of("views/panels/panel.py", "views/panels/test_lacking")(
        "a part that a run lacks is asked for",
        "        if part and (why := self.lacks(question)):",
        "        if why := '':",
    ),
    # Jobs, the session, the selection
    jobs(
        "a cancelled job's result is delivered",
        "if self._is_alive(arrival.job):\n                arrival",
        "if True:\n                arrival",
    ),
    jobs(
        "a result that nobody wants is never acknowledged", "            arrival.refuse()\n\n", "            pass\n\n"
    ),
    jobs(
        "a job that drops itself asks all the same",
        "if self._is_alive(job):\n                job.connection",
        "if job:\n                job.connection",
    ),
    jobs("what a cancelled job asked for goes on", "job.connection.cancel(job.number)", "pass"),
    jobs(
        "what arrives together is heard in one turn",
        "arrival.hand_over()\n                return",
        "arrival.hand_over()",
    ),
    connection(
        "a result left unread is kept for ever", 'if message.kind == "done" and self.gone is None:', "if False:"
    ),
    misbehaved("every cancel looks like one unheard", "if TICKS + 1 in self", "if 1 in self"),
    misbehaved("what only waited is taken for what ended an engine", "begun or waiting[:1]", "waiting"),
    misbehaved("what is not asked is cancelled all the same", "or not waiting.sent or", "or"),
    deaths(
        "what has ended two engines is asked a third time",
        ">= MOST:\n            return REFUSAL",
        ">= 9:\n            return REFUSAL",
    ),
    deaths("what was answered in between counts on", "if one != asked]", "]"),
    of("model/engine/requests.py", "app/engine/test_process")(
        "a question is another one in another engine", "replace(value, number=0)", "value"
    ),
    recovery(
        "a restart forgets what the engine died of", "not in (before.run_id, self._brought_back)", "!= before.run_id"
    ),
    recovery(
        "what was decoded and changed is not brought back",
        "kept = self._scenes.owed or self._scenes.keep()",
        "kept = None",
    ),
    of("views/panels/needs.py", "views/test_races")(
        "a button waits for an answer that cannot come", "session.settled.connect(self._on_no_answer)", "pass"
    ),
    connection(
        "a retired process goes while one waits for it", "self.kept <= 0 and not self._waiting", "self.kept <= 0"
    ),
    connection(
        "nobody who waits hears of a close",
        'ended; try again."))\n            self._tell_all()',
        'ended; try again."))\n            self._waiting.clear()',
    ),
    connection("a handle that is gone holds its thing", 'self._send("release", number)', "pass"),
    session(
        "a command that starts no engine is said twice",
        "Ended) and gone is not None and failure.sentence == gone.sentence:",
        "Ended) and failure is gone:",
        "app/session/test_restarts",
    ),
    connection("another version is talked to", "if greeting.version != self.version:", "if False:"),
    remote("a token too many of the run before stays", "[: grown.since]", "[: grown.since + 1]"),
    remote(
        "a run of another process is compared with", "if baseline is not None and comparable", "if baseline is not None"
    ),
    outbox("more goes out than the other side takes", ".size <= self._credit", ".size >= 0"),
    outbox("what is least urgent goes out first", "(message.urgency, place)", "(-message.urgency, place)"),
    outbox("a begun message is left without a word", "[number for one in mine if one.begun]", "[]"),
    server(
        "the least urgent request goes first", "job.message.urgency, job.number)", "-job.message.urgency, job.number)"
    ),
    server("work begins before it is said that it does", 'else ("part", "progress")', 'else ("part",)'),
    server("a job waits for each of its reports to be sent", "            job.is_told = True\n", ""),
    server("a job does not wait for its parts to be sent", "or not self._waits(j)", "or True"),
    server(
        "a cancelled request runs on",
        "if job.cancelled or self._closing:\n                raise",
        "if self._closing:\n                raise",
    ),
    server("a cancel that crossed a result is never answered", 'self._sending.put(Message(number, "done"))', "pass"),
    server("what a cancelled request has made is kept", "if job.cancelled or last.kind ==", "if last.kind =="),
    server("a panic ends the thread that computes", "except BaseException as error:", "except Exception as error:"),
    server("every pause is reported", "if now - job.reported >= REPORT_EVERY:", "if now >= job.reported:"),
    serving("a row beyond the run is asked about", "<= view.length <= run.newest", "<= view.length"),
    serving(
        "the last part of a trace is left out",
        "while part := file.read(PART):",
        "while len(part := file.read(PART)) == PART:",
    ),
    serving("a grown run's tokens begin anew", "run.tokens[since:]", "run.tokens"),
    session(
        "an answer for an earlier run is shown",
        "if self._handle is handle:\n                answer",
        "if True:\n                answer",
    ),
    selection(
        "a selection reaches past the run", "min(max(value, 0), max(end - 1, 0))", "min(max(value, 0), max(end, 0))"
    ),
    selection(
        "a selection that is the same is announced",
        "if after == self._now:\n            return",
        "if after is None:\n            return",
    ),
    selection("marks move though nobody could answer", "if not self._is_held():", "if True:"),
    selection(
        "a selection goes back to itself",
        "self._back = [*self._back[-self.HISTORY + 1 :], self._now]",
        "self._back = [*self._back[-self.HISTORY + 1 :], after]",
    ),
    timeline(
        "a step back goes two",
        "self._view(self._session.handle.run.length - 1)",
        "self._view(self._session.handle.run.length - 2)",
    ),
    timeline("rows drawn otherwise are taken", "self.drawn[length - run.prefill] == self._sampling", "True"),
    of("app/session/interventions.py", "app/test_session_interventions")(
        "silencing heads takes other changes out",
        "others = tuple(one for one in interventions if not _silences(one))",
        "others = tuple(one for one in interventions if _silences(one) and False)",
    ),
    of("app/session/step_clock.py", "app/session/test_step_clock")(
        "what moves ends abruptly", "return share * share * (3 - 2 * share)", "return share * share"
    ),
    of("app/session/interventions.py", "app/test_session_interventions", "app/session/test_session")(
        "interventions are tried in another order",
        "self._wanted = tuple(interventions)",
        "self._wanted = tuple(interventions)[::-1]",
    ),
    interventions(
        "tokens are put in the inverse order",
        "[result[row] for row in intervention.order]",
        "[result[intervention.order.index(row)] for row in range(len(intervention.order))]",
    ),
    interventions(
        "a kv group is one head too small", "(kv_head + 1) * config.group)))", "(kv_head + 1) * config.group - 1)))"
    ),
    # Lessons
    checks("twice the tolerance is right", "max(tolerance * abs(b),", "max(2 * tolerance * abs(b),"),
    of("app/lessons/claims.py", "app/lessons/test_claims")(
        "a quote covers its whole sentence", "*bare, whole[at:end]", "whole[at:end]"
    ),
    of("app/lessons/claims.py", "app/lessons/test_claims")(
        "an order presumes nothing", "return is_told and TELLING_THAT", "return is_told or TELLING_THAT"
    ),
    of("app/lessons/reader.py", "app/lessons/test_claims")(
        "any claim decides which way", "if not any(call.function in WAYS[way][1]", "if not any(call.function"
    ),
    of("app/lessons/claims.py", "app/lessons/test_claims")(
        "a part of a whole is as many of it", "shares = {1 / PARTS[", "shares = {PARTS["
    ),
    of("app/lessons/reader.py", "app/lessons/test_claims")(
        "any name may be filled in", "sorted((named(sentence) & measured) -", "sorted((named(sentence) - measured) -"
    ),
    of("app/commands/lessons.py", "app/test_learning_commands")(
        "a lesson with gaps passes", "        if found:\n", "        if not found:\n"
    ),
    of("app/lessons/contradictions.py", "app/lessons/test_claims")(
        "every number is counted", "if number > 1 or not _is_near", "if number < 1 and not _is_near"
    ),
    of("model/lessons/computed/comparison.py", "model/lessons/test_comparison")(
        "a comparison counts equal numbers", "all(first < second", "all(first <= second"
    ),
    checks("a number is told at once", "misses >= TRIES", "misses >= 0"),
    checks("a shape's order does not matter", "if typed == wanted:", "if sorted(typed) == sorted(wanted):"),
    progress("a right answer is not counted", "before.right + int(right)", "before.right"),
    progress("a lesson is finished a step early", "step == steps - 1", "step == steps - 2"),
    # Pictures
    map_box(
        "a cell is found a column too far",
        "math.floor(place.x() + 0.5))",
        "math.floor(place.x() + 1.5))",
    ),
    map_box(
        "the crosshair is off by a cell",
        "self.pixels_of(QRectF(column - 0.5, row - 0.5, 1, 1))",
        "self.pixels_of(QRectF(column - 0.5, row + 0.5, 1, 1))",
    ),
    map_data("masked cells are not hatched", "pixels[~visible] = 0", "pixels[visible] = 0"),
    of("views/plots/maps/token_axis.py", "views/plots/maps/test_heatmap", "views/plots/maps/test_token_axis")(
        "labels are those of the token after",
        "return self.names[place] if",
        "return self.names[place - 1] if",
    ),
    of("views/plots/maps/token_axis.py", "views/plots/maps/test_token_axis")(
        "names are turned where all of them fit level", "widest + GAP <= pitch", "widest + GAP > pitch"
    ),
    of("views/plots/charts/bars.py", "views/plots/charts/test_row_bars")(
        "a number stands upon the outline of its bar", "ring.top() - 1 - line", "ring.top() + 3 - line"
    ),
    of("views/plots/charts/bars.py", "views/plots/charts/test_row_bars")(
        "a number is written over a bar beside", " and not self._on_a_bar(place, box)", ""
    ),
    of("views/plots/charts/bars.py", "views/plots/charts/test_row_bars")(
        "a low plot's numbers stand upon its heading", "(free and plot.contains(box))", "free"
    ),
    of("views/plots/charts/plot.py", "views/plots/charts/test_plot")(
        "the number at the top of an axis meets the heading",
        'math.ceil(theme.current().size("number") / 2)',
        'math.ceil(theme.current().size("number") / 12)',
    ),
    of("views/panels/panel.py", "views/style/test_lettering")(
        "a subtitle ends in the middle of a part", "return whole or (parts[0] if", "return self._text or (parts[0] if"
    ),
    atlas("a ring cuts the number of its head", "theme.current().grid(0.375)", "theme.current().grid(0)"),
    of("views/panels/ledger.py", "views/panels/test_ledger_panel")(
        "of the rows that a lesson names the last is hidden", "ScrollHint.PositionAtTop", "ScrollHint.EnsureVisible"
    ),
    of("views/commands.py", "views/window/test_classroom")(
        "experts are offered where there are none", "if not entry.isVisible()}", "if entry.isVisible()}"
    ),
    of("views/style/formulas.py", "views/style/test_formulas")(
        "mod stands against its letters", "latex = latex.replace(", "_ = latex.replace("
    ),
    of("views/panels/compare.py", "views/panels/test_compare")(
        "a bar runs through names and numbers", "if room >= NARROWEST else 0", "if room >= 0 else 0"
    ),
    of("views/stage/stage.py", "views/stage/test_stage")(
        "the keys go to a button of the bar with a panel that leaves", "self._leave(card)", "pass"
    ),
    of("views/window/workspace_tabs.py", "views/stage/test_sizes")(
        "a narrow bar has numbers where it has room for names",
        "<= self.width())",
        '<= self.width() and form != "small")',
    ),
    of("views/panels/scores.py", "views/panels/test_scores")(
        "three maps are shown however small they are",
        "> (1 if self.crowded else LARGER) * three",
        "> 100 * three",
    ),
    of("views/panels/compare.py", "views/test_words")(
        "a difference is said to be none", "if moved or changed", "if changed"
    ),
    of("views/panels/heads.py", "views/panels/test_heads_panel")(
        "a button stays pressed for a test that failed",
        "if self.is_current and self.tested is None and",
        "if not self.is_current and self.tested is None and",
    ),
    of("views/plots/maps/heatmap.py", "views/plots/maps/test_heatmap")(
        "query and key have each other's colour",
        "return theme.current().query, theme.current().key",
        "return theme.current().key, theme.current().query",
    ),
    levels(
        "the colours end a level early",
        "np.rint(self.shares(values) * 255)",
        "np.rint(self.shares(values) * 254)",
    ),
    levels("a robust scale is said to be whole", "levels.scale, ROBUST)", "levels.scale)"),
    map_data(
        "a reduced pixel is that of its neighbour",
        "(column - self.columns[0]) // across",
        "(column - self.columns[0] + 1) // across",
    ),
    of("views/plots/menus/map_menu.py", "views/plots/menus/test_map_menu")(
        "a copied row is that of the key", "row_text(self._cell[0])", "row_text(self._cell[1])"
    ),
    of("views/plots/maps/map_data.py", "views/plots/menus/test_map_menu")(
        "a region counts masked cells", "values[self.visible[part] & np.isfinite(values)]", "values"
    ),
    of("views/plots/maps/signed.py", "views/plots/maps/test_heatmap")(
        "more and less have each other's colour", "255 if value >= 0 else 1", "1 if value >= 0 else 255"
    ),
    of("views/plots/maps/map_box.py", "views/plots/survey/test_survey_maps")(
        "cells that are not square are pointed at as if they were",
        "cells.height() * down,",
        "cells.height() * across,",
    ),
    of("views/plots/survey/statistic_map.py", "views/plots/survey/test_survey_maps")(
        "a difference that may be chance is not faded in a map that is turned",
        "turned = self._strong is not None and self.across",
        "turned = False",
    ),
    of("views/plots/survey/scatter_plot.py", "views/plots/survey/test_scatter_plot")(
        "a line around heads chooses what is left of it",
        "inside ^= crosses",
        "inside |= crosses",
    ),
    of("views/plots/survey/error_table.py", "views/plots/survey/test_error_table")(
        "a mark goes to the row that its head was in before sorting",
        "self.rows = np.argsort(self.order)",
        "self.rows = np.arange(len(self.order))",
    ),
    of("views/plots/survey/example_list.py", "views/plots/survey/test_example_list")(
        "query and key of an example are mixed up",
        "spans[-1 if example.query == second else 0]",
        "spans[-1 if example.key == second else 0]",
    ),
    surveys(
        "examples of one statistic stand under another's name",
        "self.statistic, self.read = statistic, None",
        "self.statistic = statistic",
        "views/test_stale_surveys",
    ),
    surveys(
        "a step of a series is shown what was asked about another",
        'for slot in ("survey", "survey head"):',
        "for slot in ():",
        "views/test_stale_surveys",
    ),
    surveys(
        "a survey is asked of a process that has ended",
        "if self._reader is None or self._reader.gone is not None:",
        "if self._reader is None:",
    ),
    surveys("heads that may differ by chance have their full colour", "adjusted <= SIGNIFICANT", "adjusted <= 1.0"),
    surveys(
        "a lesson keeps the survey that was open before it",
        "vars(self).update(self._put_by)",
        "pass",
    ),
    surveys(
        "a lesson takes back what a person opened meanwhile",
        "self._put_by, self._lent = {}, None\n        folders =",
        "folders =",
    ),
    of("model/lessons/measured/surveyed.py", "test_bundled_surveys")(
        "a lesson reads the error of another head",
        "_survey(survey).error(statistic)[_checked(head, means)]",
        "_survey(survey).error(statistic)[0, 0]",
    ),
    surveys(
        "going back to a survey loses the run before",
        "self._scenes.restore(visit.before)",
        "pass",
    ),
    surveys(
        "examples of another step of a series stay",
        "self.step, self.read = step, None",
        "self.step = step",
    ),
    of("views/panels/survey_table.py", "views/test_surveying")(
        "the table lists heads that the lasso left out", "sorted(surveys.lasso) or [", "["
    ),
    of("views/panels/survey_heads.py", "views/test_surveying")(
        "another statistic that a person chooses is not drawn",
        "if self._shown != self.surveys.statistic:",
        "if self.statistic.currentData() != self.surveys.statistic:",
    ),
    of("views/plots/film_bar.py", "views/plots/test_film_bar")(
        "a series plays where nothing shall move",
        "elif motion.reduced():",
        "elif False:",
    ),
    of("views/plots/charts/bars.py", "views/plots/charts/test_plot")(
        "of more keys than pixels the smallest is seen",
        "np.maximum.reduceat(heights, starts)",
        "np.minimum.reduceat(heights, starts)",
    ),
    of("views/plots/charts/plot.py", "views/plots/charts/test_plot")(
        "a vector file's lines are as wide as they are scaled",
        "painter.setWorldTransform(",
        "painter.worldTransform() and (",
    ),
    of("views/files/figure.py", "views/test_exporting")(
        "a figure has its panel's buttons", "return isinstance(part if named", "return not isinstance(part if named"
    ),
    of("views/window/experiment_chips.py", "views/window/test_experiment_chips")(
        "the last change that has room is told twice", "interventions.now[shown:]", "interventions.now[shown - 1 :]"
    ),
    of("views/plots/charts/bars.py", "views/plots/charts/test_row_bars", "views/panels/test_scores")(
        "a click picks the bar beside", "self.picked.emit(place)", "self.picked.emit(place + 1)"
    ),
    atlas("a head is named after its neighbour", 'kv{head // self.group}"', 'kv{head % self.group}"'),
    atlas(
        "scores of a head are those of its layer's first",
        "return float(values[layer, head])",
        "return float(values[layer, 0])",
    ),
    turned_map(
        "a turned map names the other axis",
        "(self.columns_axis, self.rows_axis) if turned",
        "(self.rows_axis, self.columns_axis) if turned",
    ),
    turned_map(
        "a turned map is not turned",
        "(self._numbers.T, self._there.T) if turned",
        "(self._numbers.reshape(self._numbers.shape[::-1]), self._there.T) if turned",
    ),
    slabs("K and V change places", "self.reading.key_magnitudes if side", "self.reading.value_magnitudes if side"),
    slabs(
        "decoded rows begin a column late",
        "min(-(-self.reading.prefill // self.reading.stride)",
        "min(1 + -(-self.reading.prefill // self.reading.stride)",
    ),
    turning("only the query moves where both do", 'position - m if moves == "both" else 0.0', "0.0"),
    turning("the score by n is that by m", "scores_at(reading, m, positions)", "scores_at(reading, positions, n)"),
    hands("a hand points clockwise", "QPointF(a * drawn, -b * drawn)", "QPointF(a * drawn, b * drawn)"),
    hands("short hands are specks", "max(length / whole, SHORTEST)", "(length / whole)"),
    hands("whole turns are taken from the wrong side", "if turns > 0 else '+'", "if turns < 0 else '+'"),
    dial("a hand that jumped leaves a trail", "if moved > FAR:", "if False:"),
    turning(
        "a query turns by the key's position",
        "rotated(r.q_before, self.position * r.query_frequencies",
        "rotated(r.q_before, self.key_position * r.query_frequencies",
    ),
    of("views/panels/scores.py", "views/panels/test_scores")(
        "the size of all cells is told in cells",
        "wording.byte_size(4 * run.length**2)",
        "wording.byte_size(run.length**2)",
    ),
    of("views/panels/board.py", "views/panels/test_board_panel")(
        "a head is carried to one that is off the board",
        "if shown.head is not None and other.head in self.heads:",
        "if shown.head is not None and other.head is not None:",
    ),
    of("views/panels/board.py", "views/panels/test_board_panel")(
        "maps of another run take heads off", "self.hear(self.grid.removed, ", "self.grid.removed.connect("
    ),
    of("views/panels/head_cards.py", "views/panels/test_board_panel")(
        "another head is carried on", "if self.shown is not None and self.shown.head != shown.head:", "if False:"
    ),
    stage("a panel without room stays", "tree = trees.folded(tree)", "break"),
    stage(
        "a scene's panels stay in front after the lesson",
        "            self._turned = self._turned_before",
        "            self._turned_before = self._turned",
    ),
    stage(
        "a card that left keeps its edges", "for widget in self._edges[len(self._plan.edges) :]:", "for widget in ():"
    ),
    tree_("shares count before what is needed", "if rest * shares[place] < least[place] * whole", "if False"),
    tree_("a swap forgets one card", "places = {one: other, other: one}", "places = {one: other}"),
    panel("a panel is not drawn anew", "if changed & self.depends:", "if changed and self.depends is changed:"),
    panel("a hidden panel asks", "return self.isVisible()", "return True"),
    panel(
        "what is kept of an answer outlives its run",
        "if reading is not None and reading.run is panel.session.run else None",
        "if reading is not None else None",
        "views/test_races",
    ),
    panel("an answer about another run is drawn", " and reading.run is self.session.run", "", "views/test_races"),
    of("app/session/session.py", "views/test_races")(
        "what is pointed at outlives its run", "self.selection.point_at(Hover())", "pass"
    ),
    panel("a picture of another run is heard", "if self.is_current and (of", "if True and (of", "views/test_races"),
    wording("a head's name is head first", 'return f"L{layer}H{head}"', 'return f"L{head}H{layer}"'),
    wording(
        "counts are in units of 1,024",
        '((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "K"))',
        '((2**40, "T"), (2**30, "G"), (2**20, "M"), (1024, "K"))',
    ),
    wording("bytes are written as a count", "return format_bytes(count)", 'return f"{_scaled(count)}B"'),
    of("views/style/theme.py", "views/style/test_theme")(
        "projector mode keeps its type small", "_PROJECTED if self.projector else 1", "1 if self.projector else 1"
    ),
    of("views/keys.py", "views/test_keys")(
        "two actions have the same key",
        '"Next key", "Head and cell", ("Shift+Right",)',
        '"Next key", "Head and cell", ("Shift+Left",)',
    ),
    of("views/plots/arrow_keys.py", "views/test_main_window")(
        "an arrow in a slider decodes a step",
        "            event.accept()\n            return True\n        return super",
        "            return True\n        return super",
    ),
    of("views/plots/atlas_plan.py", "views/stage/test_sizes")(
        "thumbnails of many heads are specks", "smallest: int = 24", "smallest: int = 14"
    ),
    of("views/panels/cache.py", "views/stage/test_sizes")(
        "bytes leave the cache no room", "SHARE = 0.55", "SHARE = 0.05"
    ),
    of("model/readings/walk.py", "model/readings/test_walk")(
        "a walked score is not divided", "score = dots * spec.scale", "score = dots"
    ),
    of("model/ledger/walk.py", "model/readings/test_walk")(
        "a walk adds what attention wrote to its normed copy",
        '"residual_mid", "x", (attn,), stream',
        '"residual_mid", "normed", (attn,), stream',
    ),
    of("views/plots/block_view.py", "views/panels/test_walk_panel")(
        "what shall not move flows", "if flows and not motion.reduced() and", "if flows and"
    ),
    of("views/plots/block_view.py", "views/panels/test_walk_panel")(
        "a sum shows its first products as its largest", "np.argsort(-np.abs(row * column)", "np.argsort(-np.abs(row)"
    ),
    of("views/panels/next_token.py", "views/test_silencing")(
        "a difference has the wrong sign", "candidate.probability - before:+.3f", "before - candidate.probability:+.3f"
    ),
    of("views/panels/next_token.py", "views/stage/test_sizes")(
        "fields are lower than their type", "gaps = (len(parts) - 1) * theme.current().grid(1)", "gaps = 0"
    ),
    of("views/panels/heads.py", "views/panels/test_heads_panel")(
        "a label outlives the prompt that it was chosen for", "if run.prompt != self._prompt:", "if False:"
    ),
    of("views/pictures/shot.py", "views/pictures/test_export")(
        "a snapshot forgets what to select", "_select(session, dict(shot.select))", "_select(session, {})"
    ),
    # Processes
    child_process("a child outlives its parent", "PR_SET_PDEATHSIG, ending)", "PR_SET_PDEATHSIG, 0)"),
    child_process(
        "a child whose parent was gone lives on", "if os.getppid() != parent:", "if os.getppid() < 0 != parent:"
    ),
    child_process("half a socket keeps an engine", '"POLLRDHUP", 0)', '"POLLNOHUP", 0)'),
    child_process("what a child forked outlives it", "while os.getppid() == watched:", "while True:"),
    of("model/child_process.py", "model/test_limits")(
        "what grows without end is not ended", "if now > until or taken > most:", "if now > until:"
    ),
    of("model/child_process.py", "model/test_limits")(
        "a limit outlives what was read", "self._set.pop(said[1:], None)", "pass"
    ),
    of("model/limits.py", "model/test_limits")(
        "a line that is hung up looks like a limit for ever",
        "library.signal(int(signal.SIGHUP), _BEFORE.pop())",
        "_BEFORE.pop()",
    ),
    of("app/session/recovery.py", "views/test_engine_death")(
        "no engine comes after one that was ended at a limit", "if ended.at_limit:", "if False:"
    ),
    of("model/checkpoints/formats/torch_files.py", "model/checkpoints/test_wrong_files")(
        "a key that takes for ever to hash is read", "min(1 + sum(inside), LARGEST_TUPLE + 1)", "1"
    ),
    of("model/errors.py", "model/test_errors")(
        "a sentence has no end", "if len(sentence) <= LONGEST_SENTENCE:", "if sentence:"
    ),
    of("model/engine/stdio.py", "model/engine/test_stdio")(
        "what is printed stands between the frames", "os.dup2(2, 1)", "os.dup2(writing, 1)"
    ),
    of("app/commands/terminal.py", "app/test_terminal")(
        "a terminal obeys what a stranger wrote", "self.bare.write(shown(text))", "self.bare.write(text)"
    ),
    of("app/settings.py", "app/test_settings")(
        "two windows lose each other's recent files",
        "to_json(change(there), indent=1)",
        "to_json(change(before), indent=1)",
    ),
    of("app/models/download_child.py", "app/test_downloads_hub")(
        "a download is not compared", "if found.hexdigest() != wanted:", "if not wanted:"
    ),
    of("app/lessons/challenges.py", "app/lessons/test_challenges")(
        "a starter that found no room stays in the way", "if is_ours:", "if not text:"
    ),
    of("model/lessons/evaluation.py", "model/lessons/test_bounds")(
        "a name is worked out for each use", "if name not in home._worked:", "if name:"
    ),
    of("model/lessons/evaluation.py", "model/lessons/test_bounds")(
        "a name means what it means where it is used",
        "home._worked[name] = evaluate(home.lets[name], home)",
        "home._worked[name] = evaluate(home.lets[name], self)",
    ),
    whole_file("what a killed writer left stays", 'and not _is_there(int(left["process"]))', "and not left"),
    whole_file("what somebody writes is taken away", 'and not _is_there(int(left["process"]))', "and left"),
    of("model/tokens/tokenizer.py", "model/tokens/test_tokenizer")(
        "a panic of a library writes to the terminal", "os.dup2(nowhere, 2)", "os.dup2(2, 2)"
    ),
    of("model/challenges/judging.py", "app/test_killed_parents")(
        "what a learner's code starts outlives it", "    fork_watcher(sys.stdin.fileno())", "    pass"
    ),
    of("app/lessons/challenges.py", "app/lessons/test_judging")(
        "what has left its group outlives the challenge", ", nothing_left():", ":"
    ),
    of("model/challenges/judging.py", "app/lessons/test_judging")(
        "a learner's code says how long it may run", "        watch.begin()", "        pass"
    ),
    of("model/challenges/grading.py", "app/lessons/test_judging")(
        "complex numbers are taken for real ones", "if result.is_complex():", "if result is None:"
    ),
    of("model/challenges/judging.py", "app/lessons/test_judging")(
        "a learner's code may say that it passed", '"error" if reply.kind == "passed" else reply.kind', "reply.kind"
    ),
    of("app/models/download_child.py", "app/test_killed_parents")(
        "a download that holds the interpreter stays", "    fork_watcher(sys.stdin.fileno())", "    pass"
    ),
    of("model/notebooks/prompts.py", "model/notebooks/test_run")(
        "a mask is left out of account", "        padding = _mask(mask, inputs)", "        _mask(mask, inputs)"
    ),
    of("model/notebooks/prompts.py", "model/notebooks/test_run")(
        "positions count padding", "(padding.cumsum(1) - 1).clamp(min=0)", "padding.cumsum(1).clamp(min=0)"
    ),
    of("model/notebooks/patching.py", "model/notebooks/test_patching")(
        "all of a layer is patched in the place of a part", "cell.get(axis, slice(None))", "slice(None)"
    ),
    of("model/notebooks/patching.py", "model/notebooks/test_patching")(
        "other heads answer while a path is followed",
        "{**held, **changes}",
        "changes",
    ),
    of("model/notebooks/gradients.py", "model/notebooks/test_patching")(
        "patterns have no gradient", 'branch="explicit"', 'branch="fused"'
    ),
    of("model/runs/alone.py", "model/notebooks/test_run")(
        "a prompt of a batch keeps its padding", "rows, padding = slice(0, stop), None", "pass"
    ),
    of("model/engine/engine.py", "app/test_prompt_commands")(
        "all of a batch decode past their ends",
        "                ended.setdefault(batch, trace.length)",
        "                pass",
    ),
    of("model/notebooks/run.py", "model/notebooks/test_run")(
        "how a token was drawn is forgotten", "run.about = replace(run.about, drawn=drawn)", "pass"
    ),
    of("model/readings/patterns.py", "model/notebooks/test_run")(
        "head scores count padding", "rows[queries], rows[keys]", "queries, keys"
    ),
    of("model/fingerprint.py", "app/test_trace_commands")(
        "an adapter is not told", "    if adapter:\n", "    if False:\n"
    ),
    of("model/engine/saved_runs.py", "app/test_trace_commands")(
        "all prompts of a file go on as one", "alone(file.trace, shown - 1)", "file.trace"
    ),
    of("model/decoder/attention.py", "model/decoder/test_written_patterns")(
        "a written pattern sees what the mask hides",
        "written_weights(pattern, rows[:, None], keys) * seen",
        "written_weights(pattern, rows[:, None], keys)",
    ),
    of("model/readings/score_blocks.py", "model/decoder/test_written_patterns")(
        "pictures show a head's own weights although others were written",
        "if head in self._written:",
        "if False:",
    ),
    of("app/commands/prompting.py", "app/test_commands")(
        "a file of a prompt ends in an empty line", 'text.removesuffix("\\n").removesuffix("\\r")', "text"
    ),
    of("model/readings/strong.py", "model/readings/test_strong")(
        "hidden weights are found among the strong ones",
        "weights.masked_fill_(~layer.visible(queries, keys, batch=batch), -1.0)",
        "weights",
    ),
    of("model/readings/strong.py", "model/readings/test_strong")(
        "weights that are left out are not counted", "self._dropped += max(len(values) - self._most, 0)", "pass"
    ),
    of("views/plots/lines.py", "views/plots/test_lines")(
        "a weak line lies above a strong one", "CompositionMode_DestinationOver", "CompositionMode_SourceOver"
    ),
    of("views/plots/lines.py", "views/plots/test_lines")(
        "lines of another run are seen until its own are painted",
        "            self._all = self._before = None",
        "            pass",
    ),
    of("views/panels/lines.py", "views/panels/test_lines_panel")(
        "lines stay those of the group before",
        "if self._wanted(run, selection) != self._asked:",
        "if self._asked is None:",
    ),
    of("views/panels/lines.py", "views/panels/test_lines_panel")(
        "a person who scrolls is brought back", "if cell == self._shown_cell or", "if"
    ),
    survey_statistics(
        "induction of a survey counts the query itself",
        "(cells.query_token == cells.token_before_key) & (cells.key < cells.query)",
        "(cells.query_token == cells.token_before_key) & (cells.key <= cells.query)",
    ),
    survey_statistics(
        "a mean map has the first key of a part in the part before", "(ends + GRID - 1) // GRID - 1", "ends // GRID"
    ),
    survey_statistics(
        "a query that is padding counts", "& (self.key <= self.query) & self.real", "& (self.key <= self.query)"
    ),
    of("model/survey/outputs.py", "model/survey/test_statistics")(
        "a norm after W_O is left out of what heads add",
        "norms[texts, :, rows] *= scale",
        "norms[texts, :, rows] *= 1.0",
    ),
    of("model/survey/recorder.py", "model/survey/test_statistics")(
        "a window hides nothing from a survey", "spec.window >= keys)", "spec.window > 0)"
    ),
    of("model/survey/choosing.py", "model/survey/test_statistics")(
        "a survey goes on with other code", "one.source or code_hash(one.among, one.of_block)", "one.source"
    ),
    of("model/survey/tally.py", "model/survey/test_survey")(
        "squares of merged shards are lost", '"counts", "sums", "squares",', '"counts", "sums",'
    ),
    of("model/survey/running.py", "model/survey/test_survey")(
        "a survey that goes on runs committed shards again",
        "set(range(run.corpus.shards)) - done",
        "set(range(run.corpus.shards))",
    ),
    survey_folder("a process that goes on counts shards twice", "if taken.isdisjoint(shards)", "if shards"),
    survey_folder(
        "tallies that one contains stay beside it", "path.unlink()\n\n\ndef write_texts", "pass\n\n\ndef write_texts"
    ),
    of("model/survey/running.py", "model/survey/test_folder")(
        "a shard is committed before its texts and values are written",
        "        write_shard(folder, number, shard)\n        total.save(tally_file(folder, ranks.rank), mine)",
        "        total.save(tally_file(folder, ranks.rank), mine)\n        write_shard(folder, number, shard)",
    ),
    of("model/survey/running.py", "model/survey/test_ranks")(
        "every process says that it did what was committed before", "set(done if ranks.first else ())", "set(done)"
    ),
    of("model/survey/ranks.py", "model/survey/test_ranks")(
        "the first process keeps what it counted for itself", "tally.merge(Tally.of_arrays(arrays))", "pass"
    ),
    of("model/survey/texts.py", "model/survey/test_survey")(
        "the text around a token begins behind it", "self._text(max(at - AROUND, 0), at)", "self._text(at, at + AROUND)"
    ),
    of("model/survey/series.py", "model/survey/test_series")(
        "since the first is since the one before", "self.surveys[:1] * (len(self.surveys) - 1)", "self.surveys[:-1]"
    ),
    of("model/survey/comparison.py", "model/survey/test_survey")(
        "an adjusted p is above that of a larger p", "np.minimum.accumulate(scaled)", "scaled"
    ),
)


def main() -> int:
    """Try the breakages one after the other; 1 where too many get through or one no longer fits the files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="only breakages whose name or file holds one of these")
    words = parser.parse_args().words
    wanted = [one for one in BREAKAGES if not words or any(word in f"{one.name} {one.path}" for word in words)]
    counts = Counter[str]()
    with trees(ROOT) as (tree,):
        for one in wanted:
            verdict, why = tried(one, tree)
            counts[verdict] += 1
            print(f"{verdict:12} {one.name} ({one.path}){f': {why}' if why else ''}", flush=True)
    print(f"{counts[CAUGHT]} of {len(wanted)} caught, {counts[THROUGH]} get through, {counts[MISFIT]} fit no file.")
    return 1 if counts[MISFIT] or counts[THROUGH] > MAY_GET_THROUGH else 0


def tried(breakage: Breakage, tree: Tree) -> tuple[str, str]:
    """What came of a breakage, and the test that noticed or what else is to be known."""
    try:
        text = breakage.applied(tree.text(breakage.path))
    except ValueError as error:
        return MISFIT, str(error)
    outcome = tree.says_when(breakage.path, text, breakage.test_paths)
    return CAUGHT if outcome.caught else THROUGH, outcome.by


if __name__ == "__main__":
    sys.exit(main())
