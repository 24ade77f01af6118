"""A verdict as HTML: code is not split, JAX's error comes last, and values are on one line."""

import html
import re

import pytest

from autograder.explanations import insert_before_jax_message
from autograder.judge import Verdict
from autograder.judge.prose import mark_up
from autograder.judge.showing_results import shorten_call
from autograder.judge.showing_verdicts import (
    headline,
    list_sentences,
    show_verdict,
    verdict_as_html,
    verdict_document,
)
from autograder.judge.verdict import Finding
from shardlings.documents import Document, Paragraph, as_html, as_text, plain_text

LINE = 'f(lambda a: a.sum(0), in_specs=P("x"), out_specs=P())'
TOLD = f"A spec is too long. Line 3 of the cell: `{LINE}`. JAX says: ValueError: no P() in `it."
WIDE = "P(None, ('x', 'y'))"


def words(text):
    """A text's HTML, with its characters as they are."""
    return html.unescape(as_html(Document((Paragraph(mark_up(text)),))))


def verdict(*findings):
    return Verdict("1.1", "A title", findings)


def wrong(answer, difference, got="[0]", **changes):
    basis = Finding(answer, False, f"{answer} must be [1].", got, "values", difference)
    return basis.but(**changes)


def test_a_line_of_the_learners_is_code_as_a_whole():
    shown = words(TOLD)
    assert shown.count("<code") == 1
    assert shown.partition("<code ")[2].partition(">")[2].partition("</code>")[0] == LINE
    raised = f"Your function raised E: an odd ` tick (line 3 of the cell: `{LINE}`). And P() is so."
    assert words(raised).count("<code") == 2
    led = f"(line 1 of the cell: `{LINE}`, which led to on, line 6 of another cell: `{LINE}`)."
    assert words(led).count("<code") == 2


@pytest.mark.parametrize("text", [TOLD, LINE, "P() is `it`", "`a``b` P", "", 'Run hint("1.1").'])
def test_marking_up_code_keeps_the_text(text):
    assert plain_text(mark_up(text)) == text


def test_what_jax_says_is_small_and_comes_last():
    ours, small, theirs = words(TOLD).partition("<span style=")
    assert small
    assert "A spec is too long." in ours
    assert "JAX says: ValueError: no P() in `it." in theirs
    assert "<code" not in theirs
    lesson = insert_before_jax_message(TOLD, "This is a lesson.")
    assert lesson.index("a lesson. JAX says:") > lesson.index("of the cell")
    assert insert_before_jax_message("", "A lesson.") == "A lesson."
    assert insert_before_jax_message("Wrong.", "") == "Wrong."


def test_short_code_stands_on_one_line_in_a_sentence_and_breaks_at_spaces_alone_in_a_cell():
    cells = [wrong("table", "Not so.", WIDE, cell="a cell"), wrong("table", "", "", cell="another")]
    shown = html.unescape(verdict_as_html(verdict(*cells)))
    assert f'<code style="white-space:normal">{WIDE}</code>' in shown
    unbroken = '<code style="white-space:nowrap">'
    assert f"{unbroken}table['a cell']</code>" in shown
    assert unbroken not in words(f"`{LINE}`")


@pytest.mark.parametrize(("score", "share"), [(0.996, "(99%)"), (0.5, "(50%)"), (0.002, "(1%)")])
def test_a_part_of_the_points_is_neither_all_nor_nothing(score, share):
    findings = (Finding("a", True, "", ""), Finding("b", False, "", ""))
    assert headline(Verdict("1.1", "A title", findings, earned=score)).endswith(share)


@pytest.mark.parametrize(
    ("met", "earned", "ends"),
    [
        (2, 0.06, "partly right (2 of 10 entries)"),
        (1, 0, "not yet (1 of 10 entries is right)"),
        (0, 0, "not yet"),
    ],
)
def test_a_learner_reads_how_much_is_right_and_nothing_about_points(met, earned, ends, capsys):
    cells = (wrong("t", "Not so.", cell=str(number)) for number in range(10))
    found = tuple(cell.but(met=number < met) for number, cell in enumerate(cells))
    notes = ("t earns 6%: 2 of 10 entries are right.", "One group is deducted.")
    judged = Verdict("1.1", "A title", found, earned=earned, notes=notes)
    show_verdict(judged)
    said = capsys.readouterr().out
    assert said.splitlines()[0].endswith(ends)
    assert "%" not in said
    assert "deducted" not in said
    in_a_class = html.unescape(verdict_as_html(judged, whole=True))
    assert all(note in in_a_class for note in notes)


@pytest.mark.parametrize(
    "sentence",
    ["jnp.sum adds up, as in lax.psum.", "Say it in in_specs, with check_vma=False, on v5e_8."],
)
def test_names_that_are_no_words_are_code_in_html(sentence):
    names = ("jnp.sum", "lax.psum", "in_specs", "check_vma=False", "v5e_8")
    expected = {name for name in names if name in sentence}
    assert set(re.findall(r"<code[^>]*>(.*?)</code>", words(sentence))) == expected
    assert plain_text(mark_up(sentence)) == sentence
    assert "<code" not in words("One number, 12.5 or 1_000, e.g. of jax, is np.")


def test_quoted_names_in_what_jax_says_are_code():
    told = "No. JAX says: ValueError: set the `out_sharding` parameter."
    assert re.search(r"<code[^>]*>out_sharding</code> parameter", words(told))
    assert plain_text(mark_up(told)) == told


def test_an_error_has_one_cross_in_a_row():
    raised = [
        wrong("f", "It raised E.", about=about, diagnosis="raised") for about in ("work", "values")
    ]
    found = (Finding("g", True, "", "", about="values"), *raised)
    *_, row, why, legend, hint = as_text(verdict_document(verdict(*found))).splitlines()
    assert row.split() == ["f", "✗", "–"]
    assert why == "  see above"
    assert legend == "– is judged once the rest of its row is right."
    assert "hint" in hint


def test_each_mark_has_its_columns_name_in_a_table_that_is_too_wide():
    def lines_for(name):
        found = [wrong(name, "No.", about=about) for about in ("communication", "values", "layout")]
        found.append(found[0].but(answer="g"))
        return as_text(verdict_document(verdict(*found))).splitlines()

    assert "f  –              ✗       –" in lines_for("f")
    wide = lines_for("predict_explicit")
    assert "predict_explicit: communication –, values ✗, layout –" in wide
    assert "g: communication ✗" in wide


def test_no_colon_follows_a_title_that_is_a_question():
    assert headline(Verdict("4.6", "Weights?", ())) == "✗ 4.6 Weights? – not yet"
    assert headline(Verdict("1.1", "Weights", ())) == "✗ 1.1 Weights: not yet"


def test_what_an_answer_requires_is_counted_once_for_each_answer():
    met = Finding("f", True, "", "", about="values")
    found = (met, met, wrong("f", "Too much.", about="collectives"), met.but(answer="g"))
    document = verdict_document(Verdict("1.1", "A title", found, earned=0.5), in_class=False)
    assert as_text(document).splitlines()[0].endswith("partly right (2 of 3 parts)")


def test_credit_for_a_design_is_a_share_in_a_notebook_too():
    found = (Finding("f", False, "", "", "slow", "It is slow.", credit=0.31),)
    document = verdict_document(Verdict("1.1", "A title", found, earned=0.31), in_class=False)
    assert as_text(document).splitlines()[0].endswith("partly right (31%)")


def test_what_is_expected_is_not_said_to_be_so_twice():
    assert "Expected: f is [1]." in list_sentences(verdict(wrong("f", "Wrong.")))
    alike = wrong("f", "The value at [0] is 2.", "8 blocks").but(expected="8 blocks")
    assert not any("8 blocks" in line for line in list_sentences(verdict(alike)))


@pytest.mark.parametrize(
    ("got", "why"), [("[0]", "as for g"), ("[2]", "as for g. Got [2]; expected [1].")]
)
def test_only_what_is_alike_in_all_is_said_to_be_as_for_another(got, why):
    found = [
        wrong("f", "It raised."),
        wrong("g", "All are wrong.").but(expected="[1]"),
        wrong("h", "All are wrong.", got).but(expected="[1]"),
    ]
    lines = [line.strip() for line in list_sentences(verdict(*found))]
    assert lines[lines.index(next(line for line in lines if line.split() == ["h", "✗"])) + 1] == why


def test_cells_alike_name_the_first_of_them_where_above_would_mean_another_sentence():
    found = [
        wrong("t", "One device.", "16", cell="a").but(diagnosis="one-device"),
        wrong("t", "One device.", "32", cell="b").but(diagnosis="one-device"),
        wrong("t", "An even share.", "64", cell="c").but(diagnosis="fair-share"),
        wrong("t", "One device.", "16", cell="d").but(diagnosis="one-device"),
    ]
    rows = [line.split(maxsplit=3) for line in list_sentences(verdict(*found))]
    assert [row[3] for row in rows if row[0] in ("a", "b")] == ["see above"] * 2
    assert ["d", "16", "✗", "as for a"] in rows


def test_a_cell_whose_key_is_no_name_is_quoted():
    found = [
        wrong("t", "One device.", "16", cell="a").but(diagnosis="one-device"),
        wrong("t", "An even share.", "64", cell="as an argument").but(diagnosis="fair-share"),
        wrong("t", "An even share.", "16", cell="d").but(diagnosis="fair-share"),
    ]
    rows = [line.split(maxsplit=3) for line in list_sentences(verdict(*found))]
    assert ["d", "16", "✗", 'as for "as an argument"'] in rows


def test_an_explanation_in_the_table_of_one_answer_is_not_repeated_in_that_of_another():
    found = [
        wrong("s", "One device.", "16", cell="a").but(diagnosis="one-device"),
        wrong("s", "An even share.", "64", cell="b").but(diagnosis="fair-share"),
        wrong("t", "An even share.", "32", cell="c").but(diagnosis="fair-share"),
    ]
    lines = list_sentences(verdict(*found))
    assert [line.strip() for line in lines].count("An even share.") == 1
    assert ["c", "32", "✗", "as for s['b']"] in [line.split(maxsplit=3) for line in lines]


def test_each_column_that_is_marked_as_wrong_is_explained():
    layout = wrong("f", "It is replicated.", about="layout")
    cost = wrong("f", "It sends too much.", about="communication")
    said = list_sentences(verdict(layout, cost, wrong("g", "Wrong.", about="values")))
    assert any("see above. Also: It sends too much." in line for line in said)


def test_only_what_is_shown_of_an_answer_is_pointed_to():
    found = [
        wrong("f", "It raised."),
        wrong("g", "The shape is wrong.", about="values"),
        wrong("g", "It sends too much.", about="collectives"),
        wrong("h", "It sends too much.", about="collectives"),
    ]
    lines = [line.strip() for line in list_sentences(verdict(*found))]
    assert lines[lines.index(next(line for line in lines if line.startswith("h "))) + 1] == (
        "It sends too much."
    )


@pytest.mark.parametrize(("about", "verb"), [("collectives", "count"), ("layout", "counts")])
def test_what_counts_later_agrees_with_its_verb(about, verb):
    later = Finding(
        "f", False, "", "", "not-counted-yet", "This counts once all is so.", about=about
    )
    said = list_sentences(verdict(wrong("f", "Wrong.", about="values"), later))
    assert f"{about.capitalize()} {verb} once all is so." in said


def test_of_a_long_call_both_ends_are_shown():
    assert shorten_call("f([1, 2], True)") == "f([1, 2], True)"
    assert shorten_call(f"f({10**200}, 3)") == "f(10000000…00000000, 3)"
    shown = shorten_call(f"f({[123456789012] * 30})")
    assert len(shown) < 110
    assert (shown[:15], shown[-5:]) == ("f([123456789012", "012])")


def test_answers_of_which_other_things_are_required_have_lines_of_their_own():
    """So no mark stands far from its name, where one table would be too wide."""
    abouts = ("values", "layout", "communication", "memory")
    program = [Finding("f", True, "", "", about=about) for about in abouts[1:]]
    plain = Finding("g", True, "", "", about="result")
    found = verdict(wrong("f", "Wrong.", about=abouts[0]), *program, plain)
    lines = list_sentences(found)
    assert "f: values ✗, layout ✓, communication ✓, memory ✓" in lines
    assert "g: result ✓" in lines
    few = verdict(wrong("f", "Wrong.", about=abouts[0]), program[0], plain)
    assert ["values", "layout", "result"] in [line.split() for line in list_sentences(few)]
