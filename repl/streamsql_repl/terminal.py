"""The line editor: prompt_toolkit around the shell."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from prompt_toolkit.output import Output
from prompt_toolkit.styles import Style

from streamsql_repl.commands import COMMANDS
from streamsql_repl.completion import Vocabulary, suggest
from streamsql_repl.highlight import StreamSqlLexer
from streamsql_repl.history import history_file
from streamsql_repl.shell import Quit, Shell
from streamsql_repl.splitter import is_complete

_FIRST_LOOK_SECONDS = 0.2

_STYLE = Style.from_dict(
    {
        "pygments.keyword": "bold ansiblue",
        "pygments.keyword.type": "ansicyan",
        "pygments.keyword.pseudo": "ansimagenta",
        "pygments.literal.string": "ansigreen",
        "pygments.literal.number": "ansiyellow",
        "pygments.comment": "ansibrightblack",
        "pygments.name.function": "ansicyan",
        "pygments.name.variable": "ansimagenta",
        "prompt": "bold",
    }
)


class ShellCompleter(Completer):
    """Our suggestions for prompt_toolkit."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """Suggestions at the cursor."""
        found = suggest(document.text_before_cursor, self._vocabulary.words, COMMANDS)
        for suggestion in found:
            yield Completion(suggestion.text, -suggestion.length, display_meta=suggestion.kind)


def accepts(text: str) -> bool:
    """Does Enter run this text, instead of beginning a new line?

    >>> accepts("select 1;"), accepts("select 1"), accepts("\\\\d"), accepts("select ';")
    (True, False, True, False)
    """
    return not text.strip() or is_complete(text)


def key_bindings() -> KeyBindings:
    """Enter runs what is complete; Alt-Enter (Escape, Enter) always makes a new line."""
    bindings = KeyBindings()
    complete = Condition(lambda: accepts(get_app().current_buffer.document.text))

    @bindings.add("enter", filter=complete)
    def run(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    @bindings.add("escape", "enter")
    def new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return bindings


class Terminal:
    """Reads statements from a person and gives them to the shell.

    input, output: prompt_toolkit's, for tests.
    """

    def __init__(
        self,
        shell: Shell,
        *,
        input: Input | None = None,
        output: Output | None = None,
        history: History | None = None,
    ) -> None:
        self.shell = shell
        self.vocabulary = Vocabulary()
        path = history_file() if history is None else None
        self.session: PromptSession[str] = PromptSession(
            multiline=True,
            lexer=PygmentsLexer(StreamSqlLexer),
            completer=ShellCompleter(self.vocabulary),
            complete_while_typing=False,
            history=history or (FileHistory(str(path)) if path else InMemoryHistory()),
            key_bindings=key_bindings(),
            style=_STYLE,
            prompt_continuation=self._continuation,
            enable_open_in_editor=True,
            input=input,
            output=output,
        )
        shell.read_data_line = self._read_data_line
        shell.on_change.append(self._refresh)

    def _refresh(self) -> None:
        self.vocabulary.refresh(self.shell.backend)

    def prompt(self) -> str:
        """database, the transaction's state, and => ."""
        mark = {"T": "*", "E": "!"}.get(self.shell.backend.status, "")
        return f"{self.shell.backend.database}={mark}> "

    def _continuation(self, width: int, line_number: int, is_soft_wrap: int) -> str:
        return "." * (width - 2) + "> "

    def _read_data_line(self) -> str | None:
        from prompt_toolkit import prompt

        try:
            return prompt(">> ")
        except EOFError:
            return None

    def run(self) -> None:
        """Until Ctrl-D or \\q. Raises: ConnectionLost."""
        # a moment later: opening an embedded database must not slow down the first prompt
        first_look = threading.Timer(_FIRST_LOOK_SECONDS, self._refresh)
        first_look.daemon = True
        first_look.start()
        try:
            self._converse()
        finally:
            first_look.cancel()

    def _converse(self) -> None:
        while True:
            try:
                text = self.session.prompt(self.prompt)
            except KeyboardInterrupt:  # forgets what was typed
                self.shell.buffer = ""
                continue
            except EOFError:
                return
            try:
                self.shell.feed(text)
            except Quit:
                return
            except KeyboardInterrupt:
                self.shell.buffer = ""
