"""How long opening a checkpoint of more than 1 GB takes, and how much private memory, beside transformers.

``python -m tests.benchmarks.checkpoint_loading`` writes a random model, opens it in a fresh process each, and prints a
line for each reader and dtype. The file is read once before, so that both find it in the page cache.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from safetensors.torch import save_file

from ropewalk.model.checkpoints import open_steps

D, F, LAYERS, HEADS, KV_HEADS, HEAD_WIDTH, VOCABULARY = 1536, 4096, 10, 12, 4, 128, 32_000
CONFIG = {
    "model_type": "llama", "hidden_size": D, "intermediate_size": F, "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": HEAD_WIDTH, "vocab_size": VOCABULARY,
    "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": False,
    "architectures": ["LlamaForCausalLM"], "torch_dtype": "float32",
}  # fmt: skip

OURS = """
from model.checkpoints import open_checkpoint
opened = lambda path, dtype: open_checkpoint(path, dtype=dtype).model
"""
THEIRS = """
import torch, transformers
transformers.logging.disable_progress_bar()
opened = lambda path, dtype: transformers.AutoModelForCausalLM.from_pretrained(path, dtype=getattr(torch, dtype))
"""
MEASURE = """
import json, sys, time, psutil
process = psutil.Process()
before, started = process.memory_full_info().uss, time.perf_counter()
model = opened(sys.argv[1], sys.argv[2])
seconds = time.perf_counter() - started
added = process.memory_full_info().uss - before
held = sum(value.numel() * value.element_size() for value in model.parameters())
print(json.dumps([seconds, added, held]))
"""


def write_model(folder: Path) -> Path:
    """A random Llama of about 1.3 GB in float32."""
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (VOCABULARY, D),
        "lm_head.weight": (VOCABULARY, D),
        "model.norm.weight": (D,),
    }
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        shapes |= {
            f"{prefix}self_attn.q_proj.weight": (HEADS * HEAD_WIDTH, D),
            f"{prefix}self_attn.k_proj.weight": (KV_HEADS * HEAD_WIDTH, D),
            f"{prefix}self_attn.v_proj.weight": (KV_HEADS * HEAD_WIDTH, D),
            f"{prefix}self_attn.o_proj.weight": (D, HEADS * HEAD_WIDTH),
            f"{prefix}mlp.gate_proj.weight": (F, D),
            f"{prefix}mlp.up_proj.weight": (F, D),
            f"{prefix}mlp.down_proj.weight": (D, F),
            f"{prefix}input_layernorm.weight": (D,),
            f"{prefix}post_attention_layernorm.weight": (D,),
        }
    tensors = {name: torch.randn(shape) * 0.02 for name, shape in shapes.items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(CONFIG))
    return folder


def measure(reader: str, folder: Path, dtype: str) -> tuple[float, int, int]:
    """Seconds, private bytes added, and bytes of the weights, in a fresh process."""
    command = [sys.executable, "-W", "ignore", "-c", reader + MEASURE, str(folder), dtype]
    found = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds, added, handle = json.loads(found.stdout.splitlines()[-1])
    return seconds, added, handle


def longest_slice(folder: Path, dtype: str) -> float:
    """Seconds of the longest slice of an opening, which is what a decode step of another model may have to wait."""
    longest, began = 0.0, time.perf_counter()
    for _ in open_steps(folder, dtype=dtype):
        longest, began = max(longest, time.perf_counter() - began), time.perf_counter()
    return longest


def main(repeats: int = 3) -> None:
    """Print the comparison."""
    with tempfile.TemporaryDirectory() as name:
        folder = write_model(Path(name))
        for dtype in ("float32", "bfloat16"):
            for reader, code in (("ropewalk", OURS), ("transformers", THEIRS)):
                runs = [measure(code, folder, dtype) for _ in range(repeats)]
                seconds = statistics.median(run[0] for run in runs)
                share = max(run[1] / run[2] for run in runs)
                print(
                    f"{dtype:9} {reader:12} {seconds:6.2f} s   private memory {share:.3f} × {runs[0][2] / 1e9:.2f} GB"
                )
            print(f"{dtype:9} longest slice {1000 * longest_slice(folder, dtype):.0f} ms")


if __name__ == "__main__":
    main()
