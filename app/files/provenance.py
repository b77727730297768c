"""Where an exported file came from: model, prompt, head, position and settings, as named lines of text.

Every exported file carries them inside.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from html import escape
from typing import TYPE_CHECKING

from ropewalk import __version__
from ropewalk.app.address import head_name
from ropewalk.model.decoder.spec import AttentionSpec
from ropewalk.model.readings.records import Run, Sampling

if TYPE_CHECKING:
    from ropewalk.app.session.session import Session

UNPRINTABLE = {code: None for code in range(32) if code not in (9, 10, 13)} | {0x7F: None, 0xFFFE: None, 0xFFFF: None}
"""Control characters, which no text chunk and no XML may hold."""


@dataclass(frozen=True)
class Provenance:
    """What a file says about itself.

    Attributes
    ----------
    title
        What is shown, in a few words.
    lines
        (name, text) pairs; names are plain ASCII words.
    """

    title: str
    lines: tuple[tuple[str, str], ...]

    @property
    def text(self) -> str:
        """All lines, one under another."""
        return "\n".join(f"{name}: {text}" for name, text in self.lines)

    @property
    def json(self) -> str:
        """Title and lines as one JSON object in ASCII."""
        return json.dumps({"Title": self.title, **dict(self.lines)})

    @property
    def xmp(self) -> bytes:
        """An XMP packet with Dublin Core's title and description (ISO 16684-1)."""

        def entry(name: str, text: str) -> str:
            sentence = escape(text, quote=False)
            return f'<dc:{name}><rdf:Alt><rdf:li xml:lang="x-default">{sentence}</rdf:li></rdf:Alt></dc:{name}>'

        return (
            '<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>'
            '<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
            '<rdf:Description rdf:about="" xmlns:dc="http://purl.org/dc/elements/1.1/"'
            ' xmlns:xmp="http://ns.adobe.com/xap/1.0/">'
            f"{entry('title', self.title)}{entry('description', self.text)}"
            f"<xmp:CreatorTool>{escape(software(), quote=False)}</xmp:CreatorTool>"
            '</rdf:Description></rdf:RDF></x:xmpmeta><?xpacket end="w"?>'
        ).encode()

    def with_lines(self, more: Mapping[str, str]) -> Provenance:
        """The same with further lines."""
        return Provenance(self.title, (*self.lines, *((name, clean(text)) for name, text in more.items())))


def provenance(session: Session, title: str) -> Provenance:
    """What a file made now should say about itself."""
    return Provenance(clean(title), tuple((name, clean(text)) for name, text in _lines(session)))


def software() -> str:
    """The program and its version."""
    return f"Ropewalk {__version__}"


def clean(text: str) -> str:
    """A text without the characters that files refuse: controls, and halves of a character."""
    return text.encode("utf-8", "replace").decode("utf-8").translate(UNPRINTABLE)


def _lines(session: Session) -> Iterator[tuple[str, str]]:
    yield "Software", software()
    card = session.model
    if card is not None:
        yield "Model", card.name
        yield "Family", card.family
        if card.parameters:
            yield "Parameters", f"{card.parameters:,}"
        there = f" of {session.elsewhere}" if session.elsewhere else ""
        yield "Computed", f"{card.dtype} on {card.device}{there}"
    run = session.run
    if run is None:
        return
    yield from _run_lines(run, session.timeline.sampling)
    now = session.selection.now
    yield "Head", f"{head_name(now.layer, now.head)} (kv head {run.specs[now.layer].kv_head_of(now.head)})"
    yield "Query", _position(run, now.query)
    yield "Key", _position(run, now.key)
    yield "Plane", str(now.plane)
    yield "Attention", attention_words(run.specs[now.layer])
    if session.interventions.now:
        yield "Experiments", "; ".join(intervention.label for intervention in session.interventions.now)


def _run_lines(run: Run, sampling: Sampling) -> Iterator[tuple[str, str]]:
    yield "Prompt", run.prompt
    if run.rendered:
        yield "Put by its chat template as", run.rendered
    yield "Tokens", f"{run.length} in view, {run.prefill} of the prompt"
    if run.steps:
        yield "Decoded", "".join(token.text for token in run.tokens[run.prefill : run.length])
    yield "Sampling", ", ".join(f"{name.replace('_', '-')} {value:g}" for name, value in asdict(sampling).items())


def _position(run: Run, row: int) -> str:
    return f"{row} {run.tokens[row].inline}" if row < len(run.tokens) else str(row)


def attention_words(spec: AttentionSpec) -> str:
    """What one layer's attention was told to do, in words."""
    parts = [f"scale {spec.scale:g}", "causal" if spec.causal else "no causal mask"]
    if spec.window is not None:
        parts.append(f"window {spec.window}")
    if spec.cap is not None:
        parts.append(f"soft cap {spec.cap:g}")
    if spec.rotary_width:
        parts.append(f"RoPE on {spec.rotary_width} of {spec.head_width} features, {spec.pairing} pairs")
    else:
        parts.append("no RoPE")
    return ", ".join(parts)
