"""The option line of a magic: `--out "my run.json" --stacks rest`.

Quotes work as in a shell and are not part of the value; everything after the last option is left as typed,
because it may be a Python statement. Knows nothing of IPython.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from neuron_lab.errors import UsageError


@dataclass(frozen=True)
class Option:
    """One `--name`, with a value when `metavar` is given."""

    name: str
    help: str
    metavar: str = ""

    @property
    def usage(self) -> str:
        return f"{self.name} {self.metavar}".rstrip()


@dataclass(frozen=True)
class OptionLine:
    """What a magic's line said: values by option name, and the text after the options."""

    values: dict[str, str]
    rest: str

    def text(self, name: str) -> str | None:
        return self.values.get(name)

    def flag(self, name: str) -> bool:
        return name in self.values


class OptionParser:
    """Reads the options of one magic; every mistake is a one-line UsageError naming the option."""

    def __init__(self, magic: str, options: Iterable[Option]) -> None:
        self.magic = magic
        self.options = {option.name: option for option in options}

    def parse(self, line: str) -> OptionLine:
        values: dict[str, str] = {}
        position = _skip_blanks(line, 0)
        while line.startswith("--", position):
            word, after = self._word(line, position)
            if word == "--":
                position = _skip_blanks(line, after)
                break
            name, equals, value = word.partition("=")
            option = self._known(name)
            if name in values:
                raise self.mistake(f"{name} is given twice; give it once")
            if option.metavar and not equals:
                value, after = self._value(option, line, after)
            values[name] = self._checked(option, value, bool(equals))
            position = _skip_blanks(line, after)
        return OptionLine(values, line[position:].strip())

    def mistake(self, text: str) -> UsageError:
        return UsageError(f"{self.magic}: {text}")

    def usage(self) -> str:
        width = max(len(option.usage) for option in self.options.values())
        return "\n".join(f"  {option.usage:<{width}}  {option.help}" for option in self.options.values())

    def _known(self, name: str) -> Option:
        if name not in self.options:
            valid = ", ".join(option.usage for option in self.options.values())
            raise self.mistake(f"unknown option {name!r}; valid: {valid}")
        return self.options[name]

    def _value(self, option: Option, line: str, position: int) -> tuple[str, int]:
        start = _skip_blanks(line, position)
        if start == len(line) or line.startswith("--", start):
            raise self.mistake(f"{option.name} needs a value: {option.usage}")
        return self._word(line, start, option.name)

    def _checked(self, option: Option, value: str, equals: bool) -> str:
        if option.metavar and not value:
            raise self.mistake(f"{option.name} needs a value: {option.usage}")
        if equals and not option.metavar:
            raise self.mistake(f"{option.name} takes no value, got {value!r}")
        return value

    def _word(self, line: str, position: int, option: str | None = None) -> tuple[str, int]:
        """One shell-like word: quotes group and vanish; a backslash takes the next character as it is."""
        start, word, quote = position, "", ""
        while position < len(line):
            char = line[position]
            if char == "\\" and quote != "'" and position + 1 < len(line):
                position += 1
                word += line[position]
            elif quote:
                quote, word = ("", word) if char == quote else (quote, word + char)
            elif char in "\"'":
                quote = char
            elif char.isspace():
                break
            else:
                word += char
            position += 1
        if quote:
            named = option or word.partition("=")[0]
            raise self.mistake(
                f"{named}: the quote {quote} in {line[start:].strip()} is never closed; close it"
            )
        return word, position


def _skip_blanks(line: str, position: int) -> int:
    while position < len(line) and line[position].isspace():
        position += 1
    return position
