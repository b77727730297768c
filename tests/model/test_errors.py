"""Sentences: on one line, and with no more of a file than a person reads."""

from __future__ import annotations

from ropewalk.model.errors import LONGEST_QUOTE, LONGEST_SENTENCE, RopewalkError, quoted, unforeseen


def test_a_sentence_repeats_no_endless_word_of_a_file() -> None:
    error = RopewalkError(f"A file is called '{'x' * 5000}', and holds {'y' * 300}.")
    assert error.sentence == str(error) == f"A file is called '{'x' * (LONGEST_QUOTE - 1)}…', and holds {'y' * 200}…."
    short = f"A file of {LONGEST_QUOTE} letters is called {'x' * LONGEST_QUOTE}."
    assert RopewalkError(short).sentence == short


def test_a_sentence_has_an_end_and_one_line() -> None:
    sentence = RopewalkError(f"A shape is [{'32, ' * 5000}1];\nuse another file.").sentence
    assert len(sentence) <= LONGEST_SENTENCE + LONGEST_QUOTE
    assert sentence.startswith("A shape is [32, 32,")
    assert sentence.endswith("32, 1]; use another file.")


def test_a_name_is_quoted_without_what_moves_a_cursor() -> None:
    assert quoted("a\x1b]52;c;\n\tb") == "a ]52;c;  b"
    assert quoted("z" * 999) == "z" * 200 + "…"
    assert len(unforeseen(ValueError("w" * 9999))) < 300


def test_memory_that_runs_out_is_foreseen() -> None:
    assert unforeseen(MemoryError(), "Opening x") == (
        "Memory ran out while opening x; close other programs, or ask for less."
    )
