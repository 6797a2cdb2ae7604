"""The option line of a magic: what is read, and what each mistake says."""

from __future__ import annotations

import pytest

from neuron_lab.errors import UsageError
from neuron_lab.notebook.options import Option, OptionLine, OptionParser

PARSER = OptionParser("%%magic", [Option("--out", "where", "FILE"), Option("--stacks", "more")])


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("--out run.json", "run.json"),
        ("--out=run.json", "run.json"),
        ('--out "my run.json"', "my run.json"),
        ('--out="my run.json"', "my run.json"),
        ("--out 'my run.json'", "my run.json"),
        ("--out my' 'run.json", "my run.json"),
        (r"--out my\ run.json", "my run.json"),
        (r'--out "a \"b\".json"', 'a "b".json'),
        (r"--out 'C:\tmp\a.json'", r"C:\tmp\a.json"),
    ],
)
def test_a_value_has_its_quotes_removed_as_in_a_shell(line: str, value: str) -> None:
    assert PARSER.parse(line) == OptionLine({"--out": value}, "")


@pytest.mark.parametrize(
    ("line", "rest"),
    [
        ("--stacks f('a b', {x: \"$y\"})", "f('a b', {x: \"$y\"})"),
        ("--stacks   it's", "it's"),
        ("--stacks -- --x", "--x"),
        ("--stacks -x + 1", "-x + 1"),
    ],
)
def test_the_text_after_the_options_is_left_as_typed(line: str, rest: str) -> None:
    assert PARSER.parse(line) == OptionLine({"--stacks": ""}, rest)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--oot a", "%%magic: unknown option '--oot'; valid: --out FILE, --stacks"),
        ("--out", "%%magic: --out needs a value: --out FILE"),
        ("--out=", "%%magic: --out needs a value: --out FILE"),
        ('--out ""', "%%magic: --out needs a value: --out FILE"),
        ("--out --stacks", "%%magic: --out needs a value: --out FILE"),
        ("--out a --out b", "%%magic: --out is given twice; give it once"),
        ("--stacks=yes", "%%magic: --stacks takes no value, got 'yes'"),
        ('--out "my run', '%%magic: --out: the quote " in "my run is never closed; close it'),
        ("--out='my run", "%%magic: --out: the quote ' in --out='my run is never closed; close it"),
    ],
)
def test_a_mistake_is_one_line_naming_the_option(line: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        PARSER.parse(line)
    assert str(caught.value) == message
