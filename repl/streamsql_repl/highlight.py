"""Syntax highlighting: a pygments lexer that knows our keywords."""

from __future__ import annotations

from pygments.lexer import RegexLexer, words
from pygments.token import (
    Comment,
    Keyword,
    Name,
    Number,
    Operator,
    Punctuation,
    String,
    Text,
)

from streamsql_repl.words import FUNCTIONS, KEYWORDS, TYPES


class StreamSqlLexer(RegexLexer):
    """The SQL of streamsql, and backslash commands."""

    name = "streamsql"
    aliases = ["streamsql"]  # noqa: RUF012 (pygments' own interface)
    flags = 2  # re.IGNORECASE
    tokens = {  # noqa: RUF012
        "root": [
            (r"\s+", Text),
            (r"--[^\n]*", Comment.Single),
            (r"/\*", Comment.Multiline, "comment"),
            (r"\\[A-Za-z?]+", Keyword.Pseudo),
            (r"\$([A-Za-z_]\w*)?\$", String.Delimiter, "dollar"),
            (r"e'(?:[^'\\]|\\.|'')*'?", String.Escape),
            (r"'(?:[^']|'')*'?", String.Single),
            (r'"(?:[^"]|"")*"?', Name.Variable),
            (r"`(?:[^`]|``)*`?", Name.Variable),
            (r"\$\d+", Name.Variable.Global),
            (r"\d[\d_]*(?:\.\d*)?(?:e[+-]?\d+)?|\.\d+", Number),
            (words(sorted(KEYWORDS), prefix=r"(?<![\w.])", suffix=r"(?![\w$])"), Keyword),
            (words(sorted(TYPES), prefix=r"(?<![\w.])", suffix=r"(?![\w$])"), Keyword.Type),
            (words(sorted(FUNCTIONS), prefix=r"(?<![\w.])", suffix=r"(?=\s*\()"), Name.Function),
            (r"[A-Za-z_\x80-\uffff][\w$]*", Name),
            (r"[-+*/<>=~!@#%^&|?:]+", Operator),
            (r"[,;()\[\]{}.]", Punctuation),
            (r".", Text),
        ],
        "comment": [
            (r"/\*", Comment.Multiline, "#push"),
            (r"\*/", Comment.Multiline, "#pop"),
            (r"[^*/]+|[*/]", Comment.Multiline),
        ],
        "dollar": [
            (r"\$([A-Za-z_]\w*)?\$", String.Delimiter, "#pop"),
            (r"[^$]+|\$", String.Heredoc),
        ],
    }
