"""What a notebook draws: an image with the colours of the window, and names along its axes."""

from __future__ import annotations

import base64
import io
import re
import xml.etree.ElementTree as ET

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from ropewalk.model.notebooks import pictures
from ropewalk.model.notebooks.model import Model
from ropewalk.model.notebooks.run import THUMBNAIL
from ropewalk.model.readings.viridis import viridis


def drawn(html: str) -> list[tuple[NDArray[np.uint8], list[str]]]:
    """The image [h, w, 4] and the texts of every SVG."""
    found = []
    for svg in re.findall(r"<svg.*?</svg>", html, re.DOTALL):
        root = ET.fromstring(svg)
        space = "{http://www.w3.org/2000/svg}"
        image = root.find(f"{space}image")
        assert image is not None
        png = base64.b64decode(image.attrib["href"].partition(",")[2])
        found.append((np.array(Image.open(io.BytesIO(png))), [text.text or "" for text in root.iter(f"{space}text")]))
    return found


def test_a_head_is_its_weights_in_the_colours_of_the_window(bundled: Model) -> None:
    head = bundled.capture("to be or not to be").head(1, 3)
    ((cells, texts),) = drawn(head._repr_html_())
    assert texts == ["L1H3 weights", *["to", "·be", "·or", "·not", "·to", "·be"] * 2]
    seen = np.tril(np.ones((6, 6), bool))
    assert (cells[~seen] == 0).all()
    assert (cells[seen] == viridis()[np.rint(255 * head.pattern[seen]).astype(int)]).all()


def test_a_run_is_all_its_heads_and_its_tokens(bundled: Model) -> None:
    run = bundled.capture(["to be <or> not & to be", "not"])
    html = run._repr_html_()
    ((cells, texts),) = drawn(html)
    assert texts == ["bundled: 11 tokens, 1 of 2 prompts", *[f"L{n}" for n in range(4)], *[f"H{n}" for n in range(8)]]
    assert cells.shape == (4 * 12, 8 * 12, 4)
    first = cells[12:23, 36:47]
    assert (first == drawn(run.head(1, 3)._repr_html_())[0][0]).all()
    assert "&lt;" in html
    assert "&amp;" in html
    assert "<or>" not in html


def test_a_long_run_is_drawn_small(bundled: Model) -> None:
    run = bundled.capture(torch.arange(400))
    ((cells, _),) = drawn(run._repr_html_())
    assert cells.shape[0] <= 4 * (THUMBNAIL + 1)
    ((_, texts),) = drawn(run.head(0, 0)._repr_html_())
    assert len(texts) <= 1 + 2 * pictures.MOST_LABELS


def test_numbers_with_a_sign_are_white_at_0() -> None:
    cells = pictures.coloured_signed(np.array([[-2.0, 0.0, 2.0, np.nan]]))
    assert cells[0].tolist() == [[33, 102, 172, 255], [247, 247, 247, 255], [178, 24, 43, 255], [247, 247, 247, 0]]
    assert pictures.coloured_signed(np.zeros((1, 1)))[0, 0].tolist() == [247, 247, 247, 255]


def test_readings_are_drawn_with_their_axes(bundled: Model) -> None:
    patch = bundled.patch("to be or not to be", "to be if not to be", (" or", " if"))
    assert repr(patch).startswith("<Patch of resid_pre: 4 layers × 6 positions, corrupted ")
    ((cells, texts),) = drawn(patch._repr_html_())
    assert cells.shape[:2] == (4, 6)
    assert texts[1:] == ["L0", "L1", "L2", "L3", "to", "·be", "·or", "·not", "·to", "·be"]
    by_head = bundled.patch("to be or", "to be if", (" or", " if"), at="z", over=("head", "position"))
    assert drawn(by_head._repr_html_())[0][0].shape[:2] == (32, 3)
    alone = bundled.patch("to be or", "to be if", (" or", " if"), at="blocks.1.attn.hook_z")
    assert drawn(alone._repr_html_())[0][0].shape[:2] == (1, 8)
    frame = by_head.to_frame()
    assert list(frame.columns) == ["layer", "head", "position", "value"]
    assert len(frame) == 96
    run = bundled.capture("to be or not to be")
    for one in (run.attribution(3), run.logit_lens(), run.head_scores()):
        assert repr(one).startswith(f"<{type(one).__name__}: ")
        assert len(repr(one)) < 120
    titles = [texts[0] for _, texts in drawn(run.head_scores()._repr_html_())]
    assert titles == ["previous token", "sink", "duplicate token", "entropy"]
    assert drawn(run.attribution(3)._repr_html_())[0][0].shape[:2] == (4, 9)
