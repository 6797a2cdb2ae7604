"""Tab completion of a magic's options, through IPython's matcher interface. Knows only names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from IPython.core.completer import SimpleCompletion, context_matcher

from neuron_lab.notebook.options import OptionParser


class OptionCompletion:
    """Offers the options not yet given on the magic's line, and the words that may follow the magic."""

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self._offers: dict[str, tuple[OptionParser, Callable[[], Iterable[str]]]] = {}

        @context_matcher(identifier="neuron_lab.options")  # marks a function; it cannot mark a method
        def matcher(context: Any) -> dict[str, Any]:
            return self._match(context)

        self._matcher = matcher

    def offer(self, magic: str, parser: OptionParser, words: Callable[[], Iterable[str]] = tuple) -> None:
        self._offers[magic] = (parser, words)

    def install(self) -> None:
        self.shell.Completer.custom_matchers.append(self._matcher)

    def remove(self) -> None:
        matchers = self.shell.Completer.custom_matchers
        matchers[:] = [matcher for matcher in matchers if matcher is not self._matcher]

    def _match(self, context: Any) -> dict[str, Any]:
        found = re.match(r"\s*%{1,2}(\w+)\s(.*)$", context.text_until_cursor)
        if found is None or found[1] not in self._offers:
            return {"completions": []}
        parser, words = self._offers[found[1]]
        given = {word.partition("=")[0] for word in found[2].split()}
        typed = re.search(r"\S*$", found[2])
        stem = typed[0] if typed else ""
        names = [name for name in parser.options if name not in given - {stem}]
        matches = [name for name in [*names, *words()] if name.startswith(stem) and (stem or name[0] == "-")]
        # IPython replaces `token`, which may start later than the word (it splits at "-").
        cut = len(stem) - len(context.token)
        completions = [SimpleCompletion(name[cut:], type="param") for name in matches]
        return {"completions": completions, "suppress": bool(completions)}
