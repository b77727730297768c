"""From a checkpoint on disk to the scores of all its heads, imports included: ours, and TransformerLens'."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.benchmarks.peers.meters import in_turn
from tests.benchmarks.peers.ours import Numbers
from tests.benchmarks.peers.subject import subject
from tests.benchmarks.peers.theirs import save_llama

SCORES = ("previous", "sink", "induction")
LENS = """
import sys, torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformer_lens.model_bridge import TransformerBridge
folder, half = sys.argv[1], int(sys.argv[2])
peer = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32)
tokenizer = AutoTokenizer.from_pretrained(folder)
bridge = TransformerBridge.boot_transformers(folder, hf_model=peer, tokenizer=tokenizer, device="cpu")
ids = torch.randint(10, peer.config.vocab_size, (1, half), generator=torch.Generator().manual_seed(0)).repeat(1, 2)
with torch.no_grad():
    cache = bridge.run_with_cache(ids)[1]
for layer in range(peer.config.num_hidden_layers):
    pattern = cache[f"blocks.{layer}.attn.hook_pattern"][0]
    scores = (
        pattern.diagonal(-1, 1, 2).mean(-1),
        pattern[:, 1:, 0].mean(-1),
        pattern.diagonal(1 - half, 1, 2).mean(-1),
    )
    print([score.tolist() for score in scores])
"""
"""What its users write: everything cached, then the three scores of every head."""


def heads_of_a_process(path: str | None, tokens: int, times: int) -> Numbers:
    """Seconds of either, in turn, and the median of the turns' ratios; the model has the shapes of ``subject``."""
    with tempfile.TemporaryDirectory() as folder:
        save_llama(subject(path, tokens), folder)
        half = str(tokens // 2)
        named = [word for score in SCORES for word in ("--score", score)]
        ours = [sys.executable, "main.py", "heads", folder, "--repeat", half, "--json", *named]
        theirs = [sys.executable, "-c", LENS, folder, half]
        root = Path(__file__).parents[3]

        def run(command: list[str]) -> None:
            subprocess.run(command, cwd=root, check=True, capture_output=True)

        works = [lambda: run(ours), lambda: run(theirs)]
        in_turn(works, 1)  # reads the file into memory, and measures what multiplies quickest
        mine, peers = in_turn(works, times)
    ratio = statistics.median(one / other for one, other in zip(mine, peers, strict=True))
    return {"ours": statistics.median(mine), "theirs": statistics.median(peers), "ratio": ratio}
