"""When a file is wrong: one sentence that names it, what was found, what was expected and what to do, at once."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import pytest
import torch
from safetensors.torch import load_file, save_file

from ropewalk.model.checkpoints import open_checkpoint
from ropewalk.model.checkpoints.formats import torch_files
from ropewalk.model.checkpoints.formats.safetensors_files import open_single
from ropewalk.model.checkpoints.formats.torch_files import tensors_of
from ropewalk.model.checkpoints.source import Part
from ropewalk.model.errors import CheckpointError, ConfigError, RopewalkError, ShapeError
from ropewalk.model.trace_files.trace_file import is_trace
from tests.model.checkpoints import reference
from tests.model.checkpoints.gguf_writing import write
from tests.model.checkpoints.reference import SIZES, Case
from tests.model.checkpoints.rewriting import as_torch, shard

CASE = Case("qwen3", "plain", SIZES)
ROOM = 64 << 20
"""Memory that refusing a file may take, far below what the files claim."""


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return reference.save(reference.build(CASE), tmp_path_factory.mktemp("original"))


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    for path in original.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


@pytest.fixture
def gguf_file(folder: Path) -> Path:
    return write(reference.build(CASE), CASE, folder / "model.gguf", load_file(folder / "model.safetensors"))


def refused(path: Path, *parts: str, kind: type[RopewalkError] = CheckpointError) -> str:
    """Open a wrong file; check that it takes no time, and that the sentence holds ``parts``."""
    started = time.process_time()
    with pytest.raises(kind) as caught:
        open_checkpoint(path)
    assert time.process_time() - started < 1  # of this process, so that a busy machine does not count
    sentence = caught.value.sentence
    assert sentence.endswith(".")
    assert "\n" not in sentence
    for part in parts:
        assert part in sentence
    return sentence


def rewrite_header(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change a safetensors header and nothing else."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    change(header)
    changed = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(changed)) + changed + data[8 + length :])


def test_a_missing_shard(folder: Path) -> None:
    paths = shard(folder, "safetensors")
    paths[1].unlink()
    refused(folder, "model.safetensors.index.json", paths[1].name, "download")


def test_a_missing_torch_shard(folder: Path) -> None:
    paths = shard(folder, "bin")
    paths[1].unlink()
    refused(folder, "pytorch_model.bin.index.json", paths[1].name, "download")


def test_an_extra_shard(folder: Path) -> None:
    shard(folder, "safetensors")
    save_file({"x": torch.ones(2)}, folder / "model-00004-of-00004.safetensors")
    refused(folder, "model-00004-of-00004.safetensors", "does not name it")


def test_an_extra_torch_shard(folder: Path) -> None:
    shard(folder, "bin")
    torch.save({"x": torch.ones(2)}, folder / "pytorch_model-00004-of-00004.bin")
    refused(folder, "pytorch_model-00004-of-00004.bin", "does not name it")


def test_a_missing_index(folder: Path) -> None:
    shard(folder, "safetensors")
    (folder / "model.safetensors.index.json").unlink()
    refused(folder, "model.safetensors.index.json", "download the index")


def test_truncated_safetensors(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])
    refused(folder, "model.safetensors", "cut short", "download it again")


def test_weights_cut_short_while_they_are_read(folder: Path) -> None:
    """A map of the file would be the end of the process."""
    path = folder / "model.safetensors"
    whole = load_file(path)
    files = open_single(path)
    try:
        for name, value in whole.items():
            assert torch.equal(files.read(name, torch.float32), value)
            assert torch.equal(files.read(name, torch.float32, Part(rows=(1, 3))), value[1:3])
            assert torch.equal(files.read(name, torch.float32, Part(expert=1)), value[1])
        os.truncate(path, path.stat().st_size // 2)
        with pytest.raises(CheckpointError, match=r"^model\.safetensors was cut short while it was read"):
            [files.read(name, torch.float32) for name in whole]
    finally:
        files.close()


CUT = """
import os, sys
from pathlib import Path
import torch
from ropewalk.model.checkpoints.formats.table import FORMATS
from ropewalk.model.errors import CheckpointError

for path in map(Path, sys.argv[1:]):
    files = next(one for one in FORMATS if one.recognises(path)).open(path, {}).files
    os.truncate(path, 0)
    try:
        [files.read(name, torch.float32) for name in files.tensors]
    except CheckpointError as error:
        print(error.sentence)
    files.close()
"""


def test_files_cut_short_while_they_are_open_end_no_process(gguf_file: Path) -> None:
    other = gguf_file.parent / "alone" / "weights.pth"
    other.parent.mkdir()
    weights = load_file(gguf_file.with_name("model.safetensors"))
    torch.save(weights, other)
    (other.parent / "config.json").write_bytes(gguf_file.with_name("config.json").read_bytes())
    files = [gguf_file, other]
    done = subprocess.run([sys.executable, "-c", CUT, *files], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        f"{file.name} was cut short while it was read: it ends where a weight was; open it again when it is whole."
        for file in files
    ]


@pytest.mark.parametrize("mapped", [False, True])
def test_torch_weights_of_any_strides_are_read_in_parts(mapped: bool, tmp_path: Path) -> None:
    numbers, shared = torch.arange(120.0).view(4, 5, 6), torch.arange(64.0)
    whole = {
        "plain": numbers, "turned": numbers.permute(2, 0, 1), "repeated": shared[3:4].expand(4, 3), "one": shared[7],
        "some": shared[40:].view(4, 6)[:, ::2], "none": torch.empty(0, 3), "half": numbers.bfloat16(),
        "whether": numbers > 50, **({"negative": torch._neg_view(shared)} if mapped else {}),
    }  # fmt: skip
    torch.save(whole, tmp_path / "one.bin")
    files = torch_files.open_single(tmp_path / "one.bin")
    assert {value.is_meta for value in torch_files.load_file(tmp_path / "one.bin").values()} == {not mapped}
    for name, value in whole.items():
        for part in (Part(), Part(rows=(1, 3)), *([Part(2, (1, 3))] if value.ndim == 3 else [])):
            assert torch.equal(files.read(name, torch.float32, part), part.of(value))
    files.close()


def test_torch_weights_of_the_other_order_of_bytes(tmp_path: Path) -> None:
    """Described without their numbers they would be the end of the process."""
    torch.save({"x": torch.arange(4, dtype=torch.int32)}, tmp_path / "one.bin")
    other = "big" if sys.byteorder == "little" else "little"
    with zipfile.ZipFile(tmp_path / "one.bin") as before, zipfile.ZipFile(tmp_path / "two.bin", "w") as after:
        for entry in before.infolist():
            held = before.read(entry)
            after.writestr(entry.filename, other if entry.filename.endswith("byteorder") else held)
    files = torch_files.open_single(tmp_path / "two.bin")
    assert files.read("x", torch.int32).tolist() == torch.arange(4, dtype=torch.int32).numpy().byteswap().tolist()
    files.close()


def test_a_header_longer_than_the_file(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(struct.pack("<Q", 1 << 60) + path.read_bytes()[8:])
    refused(folder, "1,152,921,504,606,846,976 bytes", "download it again")


def test_overlapping_ranges(folder: Path) -> None:
    def overlap(header: dict[str, Any]) -> None:
        begin, end = header["model.norm.weight"]["data_offsets"]
        header["model.norm.weight"]["data_offsets"] = [begin - 64, end - 64]

    rewrite_header(folder / "model.safetensors", overlap)
    refused(folder, "model.safetensors", "damaged")


def test_bytes_that_are_of_no_tensor(folder: Path) -> None:
    """The file is as long as its header says, and the last tensor is told where it is: there is a gap before it."""
    path = folder / "model.safetensors"
    data = path.read_bytes()

    def leave_a_gap(header: dict[str, Any]) -> None:
        last = max((one for name, one in header.items() if name != "__metadata__"), key=lambda one: one["data_offsets"])
        begin, end = last["data_offsets"]
        last["data_offsets"] = [begin + 64, end + 64]

    path.write_bytes(data + bytes(64))
    rewrite_header(path, leave_a_gap)
    refused(folder, "model.safetensors", "leaves a gap before it", "damaged")


def test_an_unknown_dtype(folder: Path) -> None:
    rewrite_header(folder / "model.safetensors", lambda header: header["model.norm.weight"].update(dtype="F3"))
    refused(folder, "'F3'", "float32")


def test_a_shape_that_claims_terabytes(folder: Path) -> None:
    rewrite_header(folder / "model.safetensors", lambda header: header["model.norm.weight"].update(shape=[1 << 40]))
    refused(folder, "model.norm.weight", "damaged")


def test_an_index_that_points_outside(folder: Path) -> None:
    shard(folder, "safetensors")
    index = folder / "model.safetensors.index.json"
    placed = json.loads(index.read_text())["weight_map"]
    for outside in ("../model-00001-of-00003.safetensors", "/etc/passwd", "..", "sub/x.safetensors"):
        index.write_text(json.dumps({"weight_map": placed | {"model.norm.weight": outside}}))
        refused(folder, outside, "outside its own folder")


@pytest.mark.parametrize("text", ["", "[]", "{", '{"weight_map": 3}', '{"weight_map": {}}', "null"])
def test_an_index_that_is_none(folder: Path, text: str) -> None:
    shard(folder, "safetensors")
    (folder / "model.safetensors.index.json").write_text(text)
    refused(folder, "model.safetensors.index.json", "download it again")


def test_shapes_that_contradict_the_config(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    tensors["model.layers.2.self_attn.k_proj.weight"] = torch.ones(24, 48)
    save_file(tensors, folder / "model.safetensors")
    refused(folder, "model.layers.2.self_attn.k_proj.weight", "[24, 48]", "[32, 48]", kind=ShapeError)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_weights_that_are_no_numbers(folder: Path, number: float) -> None:
    tensors = load_file(folder / "model.safetensors")
    tensors["model.layers.2.mlp.up_proj.weight"][3, 4] = number
    save_file(tensors, folder / "model.safetensors")
    refused(folder, "model.layers.2.mlp.up_proj.weight", "NaN or infinite", "another copy")


POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 3087467144\n"
PAGE = "<!DOCTYPE html>\n<html><head><title>Sign in</title></head></html>"


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin", "model.gguf"])
@pytest.mark.parametrize(("text", "part"), [(POINTER, "git lfs pull"), (PAGE, "web page"), ("", "empty")])
def test_what_is_no_weights_at_all(folder: Path, name: str, text: str, part: str) -> None:
    (folder / "model.safetensors").unlink()
    (folder / name).write_text(text)
    refused(folder / name if name.endswith(".gguf") else folder, name, part)


@pytest.mark.parametrize(("text", "part"), [(POINTER, "git lfs pull"), (PAGE, "web page"), ("", "empty")])
def test_what_is_no_config_at_all(folder: Path, text: str, part: str) -> None:
    (folder / "config.json").write_text(text)
    refused(folder, "config.json", part)


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer.model", "qwen.tiktoken"])
@pytest.mark.parametrize(("text", "part"), [(POINTER, "git lfs pull"), (PAGE, "web page"), ("", "empty")])
def test_what_is_no_tokenizer_at_all_leaves_ids(folder: Path, name: str, text: str, part: str) -> None:
    (folder / name).write_text(text)
    checkpoint = open_checkpoint(folder)
    assert checkpoint.tokenizer is None
    assert checkpoint.notes[-1].startswith(f"{name} is ")
    assert part in checkpoint.notes[-1]


class Evil:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.path}",)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "full_sft_512.pth"])
def test_a_pickle_that_wants_to_run_code(folder: Path, name: str) -> None:
    (folder / "model.safetensors").unlink()
    torch.save({"model.norm.weight": Evil(folder / "ran")}, folder / name)
    if name.endswith(".pth"):
        (folder / "config.json").unlink()
    refused(folder if name.endswith(".bin") else folder / name, name, "system", "safetensors copy")
    assert not (folder / "ran").exists()


def test_a_pickle_that_is_no_zip(folder: Path) -> None:
    import pickle

    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps({"a": Evil(folder / "ran")}))
    refused(folder, "pytorch_model.bin", "not a torch file")
    assert not (folder / "ran").exists()


def test_a_pickle_whose_keys_take_for_ever_to_hash(folder: Path) -> None:
    import zipfile

    as_torch(folder)
    for width, depth in ((2, 60), (100, 9)):
        inner = b"".join(b"(" + b"h%c" % at * width + b"tq%c" % (at + 1) for at in range(depth))
        with zipfile.ZipFile(folder / "pytorch_model.bin", "w") as archive:
            archive.writestr("archive/data.pkl", b"\x80\x02}X\x01\x00\x00\x00aq\x00" + inner + b"K\x01s.")
        refused(folder, "pytorch_model.bin", "holds a tuple of more than 65,536 members", "safetensors copy")


def test_a_torch_file_that_names_a_tensor_by_what_cannot_be_written_out() -> None:
    deep: tuple[Any, ...] = ()
    for _ in range(5000):
        deep = (deep,)
    with pytest.raises(CheckpointError, match="names a tensor by tuple where a text was expected"):
        tensors_of({deep: 1}, Path("pytorch_model.bin"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are none here")
def test_what_is_no_file_and_would_be_waited_for(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    os.mkfifo(folder / "model.safetensors")
    refused(folder, "model.safetensors is no file", "download")


def test_a_torch_file_cut_short(folder: Path) -> None:
    as_torch(folder)
    path = folder / "pytorch_model.bin"
    path.write_bytes(path.read_bytes()[:-2000])
    refused(folder, "pytorch_model.bin", "cut short")


def test_a_torch_file_of_something_else(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    for content in ([1, 2], {"a": 1}, torch.ones(2), {}):
        torch.save(content, folder / "pytorch_model.bin")
        refused(folder, "pytorch_model.bin", "expected")


def test_a_compressed_zip_is_not_unpacked(folder: Path) -> None:
    import zipfile

    (folder / "model.safetensors").unlink()
    with zipfile.ZipFile(folder / "pytorch_model.bin", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(50_000_000))
    refused(folder, "pytorch_model.bin", "50,000,000 bytes")


@pytest.mark.parametrize(("at", "what"), [(8, "tensors"), (16, "metadata keys")])
def test_a_gguf_with_absurd_counts(gguf_file: Path, at: int, what: str) -> None:
    data = bytearray(gguf_file.read_bytes())
    data[at : at + 8] = struct.pack("<Q", 1 << 62)
    gguf_file.write_bytes(data)
    refused(gguf_file, "4,611,686,018,427,387,904", what, "damaged")


def test_a_gguf_with_heads_of_no_width(gguf_file: Path) -> None:
    data = bytearray(gguf_file.read_bytes())
    at = data.index(b"qwen3.attention.key_length") + len(b"qwen3.attention.key_length") + 4
    data[at : at + 4] = bytes(4)
    gguf_file.write_bytes(data)
    refused(gguf_file, "attention.key_length 0", "from 1", kind=ConfigError)


def test_a_gguf_with_an_absurd_text(gguf_file: Path) -> None:
    data = bytearray(gguf_file.read_bytes())
    data[24:32] = struct.pack("<Q", 1 << 50)
    gguf_file.write_bytes(data)
    refused(gguf_file, "model.gguf", "cut short or is damaged")


def test_a_gguf_cut_short(gguf_file: Path) -> None:
    gguf_file.write_bytes(gguf_file.read_bytes()[:-500])
    refused(gguf_file, "model.gguf", "cut short")


def test_a_gguf_for_other_machines(tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_bytes(b"GGUF" + struct.pack(">I", 3) + bytes(64))
    refused(tmp_path / "x.gguf", "big-endian")


def test_a_gguf_of_an_architecture_that_is_not_opened(tmp_path: Path) -> None:
    for arch, part in (("mamba", "state-space"), ("clip", "encoder"), ("deepseek2", "does not open")):
        writer = gguf.GGUFWriter(tmp_path / "x.gguf", arch)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        refused(tmp_path / "x.gguf", arch, part)


def test_an_empty_folder(tmp_path: Path) -> None:
    refused(tmp_path, tmp_path.name, "is empty")


def test_a_folder_of_other_things(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    refused(tmp_path, tmp_path.name, "no config.json")


def test_nothing_there(tmp_path: Path) -> None:
    refused(tmp_path / "gone", "gone", "check the path")


def test_a_path_that_no_file_can_have() -> None:
    long = "/" + "a" * 5000
    assert not is_trace(long)
    refused(Path(long), "cannot be read", "check the disk and the path")


def test_a_zip_of_a_version_that_nobody_reads(tmp_path: Path) -> None:
    torch.save({"a": torch.ones(2)}, tmp_path / "full_sft_16.pth")
    data = bytearray((tmp_path / "full_sft_16.pth").read_bytes())
    at = data.rindex(b"PK\x01\x02")
    data[at + 6] = 255
    (tmp_path / "full_sft_16.pth").write_bytes(data)
    refused(tmp_path / "full_sft_16.pth", "no readable table of contents")


def test_another_kind_of_file(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    refused(tmp_path / "notes.txt", "notes.txt", "GGUF")


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"model_type": "llama"', "\0\1"])
def test_a_config_that_is_none(folder: Path, text: str) -> None:
    (folder / "config.json").write_text(text)
    refused(folder, "config.json")


def test_no_permission(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Path.open

    def locked(self: Path, *arguments: Any, **named: Any) -> Any:
        if self.name == "model.safetensors":
            raise PermissionError(13, "Permission denied", str(self))
        return plain(self, *arguments, **named)

    monkeypatch.setattr(Path, "open", locked)
    refused(folder, "model.safetensors", "permissions")


def test_a_disk_that_fails(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(self: Path, *arguments: Any, **named: Any) -> Any:
        raise OSError(5, "Input/output error", str(self))

    monkeypatch.setattr(Path, "open", failing)
    refused(folder, "Input/output error")


CLAIMED = 1 << 42


def claiming_safetensors(folder: Path) -> Path:
    entry = {"dtype": "F32", "shape": [CLAIMED // 4], "data_offsets": [0, CLAIMED]}
    header = json.dumps({"model.norm.weight": entry}).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(64))
    return folder


def claiming_gguf(folder: Path) -> Path:
    path = write(reference.build(CASE), CASE, folder / "model.gguf", load_file(folder / "model.safetensors"))
    data = path.read_bytes()
    at = data.index(b"token_embd.weight") + len("token_embd.weight") + 4 + 8
    path.write_bytes(data[:at] + struct.pack("<Q", CLAIMED) + data[at + 8 :])
    return path


def claiming_torch(folder: Path) -> Path:
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    tensors["model.embed_tokens.weight"] = torch.ones(4).as_strided((CLAIMED, 48), (0, 0))
    torch.save(tensors, folder / "pytorch_model.bin")
    return folder


def claiming_minimind(folder: Path) -> Path:
    tensors = load_file(folder / "model.safetensors")
    tensors["model.embed_tokens.weight"] = torch.ones(4).as_strided((1 << 21, 48), (0, 0))
    tensors["model.layers.0.mlp.gate_proj.weight"] = torch.ones(4).as_strided((1 << 21, 48), (0, 0))
    (folder / "config.json").unlink()
    torch.save(tensors, folder / "full_sft_48.pth")
    return folder / "full_sft_48.pth"


def claiming_experts(folder: Path) -> Path:
    change = {"model_type": "qwen3_moe", "num_experts": 1 << 15, "num_experts_per_tok": 2, "moe_intermediate_size": 8}
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | change))
    return folder


CLAIMS = {
    "safetensors": (claiming_safetensors, "4,398,046,511,104"),
    "gguf": (claiming_gguf, "token_embd.weight"),
    "torch": (claiming_torch, "model.embed_tokens.weight"),
    "minimind": (claiming_minimind, "full_sft_48.pth"),
    "experts": (claiming_experts, "experts"),
}


@pytest.mark.parametrize("name", CLAIMS)
def test_refusing_allocates_nothing_of_what_a_file_claims(name: str, folder: Path) -> None:
    import psutil

    prepare, part = CLAIMS[name]
    path = prepare(folder)
    with pytest.raises(RopewalkError):
        open_checkpoint(path)  # once before, so that what is imported late is not counted
    before = psutil.Process().memory_info().vms
    refused(path, part, kind=RopewalkError)
    assert psutil.Process().memory_info().vms - before < ROOM
