"""The timeline of the run on screen: going on, looking back, branching, playing, and how tokens are drawn."""

from __future__ import annotations

import math
import time
from dataclasses import replace

from PySide6.QtCore import QObject, QTimer, Signal

from ropewalk.app.session.context import SessionContext
from ropewalk.app.session.step_clock import StepClock
from ropewalk.app.settings import sampling_refusal
from ropewalk.model.decoder.rope_scaling import offers
from ropewalk.model.engine.interface import RunHandle
from ropewalk.model.engine.requests import Failure
from ropewalk.model.engine.urgency import Urgency
from ropewalk.model.readings.records import Run, Sampling

MOST_AT_ONCE = 256
"""Tokens that are decoded at a time while steps follow one another without a pause."""
PACE_MS = 250
"""How long a played step stays on screen before the next one begins."""


class Timeline(QObject):
    """Steps through a run.

    Signals
    -------
    sampling_changed(sampling), playing_changed(playing)
        How tokens are drawn; whether steps follow one another.

    Attributes
    ----------
    drawn
        What each decoded row was drawn with.
    clock
        What moves while a step comes on screen goes by it.
    """

    sampling_changed = Signal(object)
    playing_changed = Signal(bool)

    def __init__(self, session: SessionContext, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self.clock = StepClock(self)
        self.drawn: tuple[Sampling, ...] = ()
        self._sampling = session.settings.now.sampling
        self._queued_steps = 0
        self._playing = False
        self._stride = 1
        """How many tokens are decoded for each that is shown, while steps follow one another without a pause."""
        self._asked_at = 0.0
        self._pace = QTimer(self)
        self._pace.setSingleShot(True)
        self._pace.setInterval(PACE_MS)
        self._pace.timeout.connect(self._play_on)

    @property
    def sampling(self) -> Sampling:
        """How the next token is drawn."""
        return self._sampling

    @property
    def playing(self) -> bool:
        """Whether steps follow one another."""
        return self._playing

    def step(self) -> None:
        """Go one token on: to the next row that exists, or by decoding one.

        A row that exists is decoded anew (and the run branches) only when it was drawn with another sampling.
        """
        self.clock.finish()
        if self._session.handle is None:
            self._session.fail(Failure("There is nothing to step through yet; run a prompt first."))
        elif self._session.jobs.has("step"):
            self._queued_steps += 1
        else:
            self._decode_or_view(self._session.handle.run.length + 1)

    def step_back(self) -> None:
        """Look at the row before; nothing is forgotten."""
        self.leave()
        if self._session.handle is not None:
            self._view(self._session.handle.run.length - 1)

    def to_start(self) -> None:
        """Look at the prompt alone."""
        self.leave()
        if self._session.handle is not None:
            self._view(self._session.handle.run.prefill)

    def to_end(self) -> None:
        """Look at every row that exists."""
        self.leave()
        if self._session.handle is not None:
            self._view(self._session.handle.run.newest)

    def run_to(self, length: int, past_end: bool = False) -> None:
        """Go to a length: by looking back, or by decoding what is missing in one job; to where the text ends at most.

        Parameters
        ----------
        past_end
            Whether to go on after a token that ends the text.
        """
        self.leave()
        if self._session.handle is None:
            self._session.fail(Failure("There is nothing to step through yet; run a prompt first."))
        elif length <= self._session.handle.run.length:
            self._view(length)
        else:
            self._decode_or_view(length, past_end)

    def branch(self, row: int, token: int) -> None:
        """Put another token in the place of a decoded row, and go on from there; later rows are forgotten."""
        self.leave()
        handle = self._session.handle
        if handle is None or not handle.run.prefill <= row < handle.run.newest:
            notice = "Only a decoded token can be replaced; step first, then choose one after the prompt."
            self._session.fail(Failure(notice))
            return
        before = replace(handle.run, length=row)
        sampling = self._sampling
        self._session.jobs.cancel("check")
        self._session.submit(
            "step",
            Urgency.DECODE,
            lambda engine: engine.branch(handle, row, token),
            lambda after: self._on_stepped(after, before, 1, sampling),
            self._on_step_failed,
            what="Decoding",
        )

    def play(self) -> None:
        """Step on and on, each step when the one before is on screen, until the text or the positions end."""
        if self._session.handle is None or self._playing:
            return
        self._stride = 1
        self._set_playing(True)
        self._play_on()

    def pause(self) -> None:
        """Stop playing; a step that has begun still arrives."""
        self._pace.stop()
        self._set_playing(False)

    def toggle_play(self) -> None:
        """Play or pause."""
        if self._playing:
            self.pause()
        else:
            self.play()

    def set_pace(self, milliseconds: int) -> None:
        """How long a played step stays before the next begins."""
        self._pace.setInterval(max(milliseconds, 0))

    def set_sampling(self, sampling: Sampling) -> None:
        """How the tokens from here on are drawn."""
        refusal = sampling_refusal(sampling)
        if refusal:
            self._session.fail(Failure(refusal))
        elif sampling != self._sampling:
            self._sampling = sampling
            self._session.settings.update(sampling=sampling)
            self.sampling_changed.emit(sampling)

    def leave(self) -> None:
        """Stop playing, and forget the steps that were still to come."""
        self._queued_steps = 0
        self.pause()
        self.clock.finish()
        self._session.jobs.cancel("step")

    def close(self) -> None:
        """Take no further step."""
        self._pace.stop()
        self._playing = False
        self._queued_steps = 0
        self.clock.finish()

    # How it works -------------------------------------------------------------------------------------------------

    def _decode_or_view(self, length: int, past_end: bool = False) -> None:
        """Go forward to ``length``, with as little decoding as gives what a fresh decode would give."""
        if self._session.handle is not None:
            self._go(self._session.handle, length, past_end)

    def _go(self, handle: RunHandle, length: int, past_end: bool = False) -> None:
        limit = handle.run.context_limit
        if length > limit:
            self.pause()
            possible = offers(handle.run.config, length)
            other = ", or pick a RoPE scaling" if possible else ""
            sentence = (
                f"Length {length} was asked for, but this model's positions end after {limit} tokens; "
                f"step back or run a shorter prompt{other}."
            )
            self._session.fail(Failure(sentence, "", possible))
            return
        agreeing = self._agreeing_rows(handle.run)
        if length <= agreeing:
            self._view(length)
            self._after_step()
            return
        base = handle if agreeing == handle.run.length else _viewed(handle, agreeing)
        count, sampling = length - agreeing, self._sampling
        self._asked_at = time.monotonic()
        self._session.jobs.cancel("check")
        self._session.submit(
            "step",
            Urgency.DECODE,
            lambda engine: engine.step(base, count, sampling, past_end),
            lambda after: self._on_stepped(after, base.run, count, sampling),
            self._on_step_failed,
            what="Decoding",
        )

    def _agreeing_rows(self, run: Run) -> int:
        """How far the rows after the ones in view were drawn with the sampling in use."""
        length = run.length
        while length < run.newest and self.drawn[length - run.prefill] == self._sampling:
            length += 1
        return length

    def _on_stepped(self, handle: RunHandle, before: Run, count: int, sampling: Sampling) -> None:
        made, ended = handle.run.length - before.length, handle.run.ends_at(handle.run.length)
        self.drawn = (*self.drawn[: before.steps], *(sampling,) * made)
        self._stride = self._next_stride(handle.run.seconds, made)
        at_once = self._playing and not self._queued_steps and self._pace.interval() == 0 and not ended
        if at_once:  # before panels ask about this one: what they ask in passing waits then, and only that
            self._decode_on(handle)
        self._move_to(handle.run.length - 1 if made == 1 and not at_once else None)
        self._session.show_run(handle, query=handle.run.length - 1)
        if not at_once:
            self._after_step(cut=made < count)

    def _after_step(self, cut: bool = False) -> None:
        """Go on with what was asked for, unless the text ends here; ``cut`` says that decoding has stopped for that."""
        run = self._session.run
        if run is not None and run.ends_at(run.length) and (cut or self._queued_steps or self._playing):
            self._queued_steps = 0
            self.pause()
            sentence = f"The text ends here, with {run.tokens[run.length - 1].inline}; step or play again to go on."
            self._session.notice(sentence)
        elif self._queued_steps:
            self._queued_steps -= 1
            self.step()
        elif self._playing:
            self._pace.start()

    def _on_step_failed(self, failure: Failure) -> None:
        self.leave()
        self._session.fail(failure)

    def _next_stride(self, seconds: float, count: int) -> int:
        """How many tokens to decode at a time, so that answering panels takes a tenth of the time at most."""
        if not self._playing or self._pace.interval() > 0 or seconds <= 0:
            return 1
        beside = time.monotonic() - self._asked_at - seconds
        return min(max(math.ceil(9 * beside * count / seconds), 1), MOST_AT_ONCE)

    def _play_on(self) -> None:
        if self._playing and self._session.handle is not None and not self._session.jobs.has("step"):
            self._decode_on(self._session.handle)

    def _decode_on(self, handle: RunHandle) -> None:
        run = handle.run
        self._go(handle, max(min(run.length + self._stride, run.context_limit), run.length + 1))

    def _view(self, length: int) -> None:
        """Show another length of the same run; nothing is computed."""
        handle = self._session.handle
        if handle is None:
            return
        length = min(max(length, handle.run.prefill), handle.run.newest)
        if length != handle.run.length:
            self._move_to(length - 1 if length == handle.run.length + 1 else None)
            self._session.show_run(_viewed(handle, length), query=length - 1)

    def _move_to(self, row: int | None) -> None:
        """Let a single token be seen on its way, for no longer than a played step stays; else be there at once."""
        if row is None:
            self.clock.finish()
        else:
            self.clock.start(row, min(self._pace.interval(), StepClock.LONG) if self._playing else StepClock.LONG)

    def _set_playing(self, playing: bool) -> None:
        if playing != self._playing:
            self._playing = playing
            self.playing_changed.emit(playing)


def _viewed(handle: RunHandle, length: int) -> RunHandle:
    return replace(handle, run=replace(handle.run, length=length))
