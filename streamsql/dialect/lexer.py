"""PostgreSQL's lexical rules: text to tokens, in one regular expression.

Beside PostgreSQL's own tokens there are back-ticked names (Flink) and `=>`. Comments and blanks
leave no token. A string continued over a line break (`'a'` newline `'b'`) is one token.
"""

from __future__ import annotations

import re
from enum import IntEnum

from streamsql.core.errors import SqlSyntaxError


class Kind(IntEnum):
    """What a token is."""

    WORD = 1  # an unquoted name or a keyword
    QUOTED = 2  # "name" or `name`
    STRING = 3
    NUMBER = 4
    PARAMETER = 5  # $1
    OPERATOR = 6  # operators and punctuation
    BITS = 7  # B'…'
    HEX = 8  # X'…'
    END = 9


class Token:
    """One token.

    key: the upper-cased word or the operator itself, "" for all other kinds: so that one comparison
    recognises a keyword or an operator, and never a quoted name. value: the folded name, the
    unescaped string, the number's or the parameter's digits. start, end: offsets, end exclusive.
    """

    __slots__ = ("end", "key", "kind", "start", "value")

    def __init__(self, kind: Kind, key: str, value: str, start: int, end: int) -> None:
        self.kind = kind
        self.key = key
        self.value = value
        self.start = start
        self.end = end

    def __repr__(self) -> str:
        return f"Token({self.kind.name}, {self.key or self.value!r}, {self.start}:{self.end})"


_PATTERN = re.compile(
    r"""
    (?P<space>      (?: [ \t\r\n\f\v\ufeff]+ | --[^\r\n]* )+ )
  | (?P<comment>    /\* )
  | (?P<escape>     [eE]'[^'\\]*(?:(?:\\.|'')[^'\\]*)*(?P<escape_end>')? )
  | (?P<bits>       [bB]'[^']*(?P<bits_end>')? )
  | (?P<hex>        [xX]'[^']*(?P<hex_end>')? )
  | (?P<unicode>    [uU]&'[^']*(?:''[^']*)*(?P<unicode_end>')? )
  | (?P<unicodename>[uU]&"[^"]*(?:""[^"]*)*(?P<unicodename_end>")? )
  | (?P<string>     [nN]?'[^']*(?:''[^']*)*(?P<string_end>')? )
  | (?P<word>       [A-Za-z_\x80-\U0010ffff][A-Za-z0-9_$\x80-\U0010ffff]* )
  | (?P<quoted>     "[^"]*(?:""[^"]*)*(?P<quoted_end>")? )
  | (?P<backtick>   `[^`]*(?:``[^`]*)*(?P<backtick_end>`)? )
  | (?P<parameter>  \$\d+ )
  | (?P<dollar>     \$(?:[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_\x80-\U0010ffff]*)?\$ )
  | (?P<number>     0[xX][0-9a-fA-F_]+ | 0[oO][0-7_]+ | 0[bB][01_]+
                  | (?: \d[\d_]*(?:\.(?!\.)(?:\d[\d_]*)?)? | \.\d[\d_]* ) (?:[eE][+-]?\d+)? )
  | (?P<double>     :: | \.\. | := )
  | (?P<single>     [,()\[\].;:{}] )
  | (?P<operator>   [-+*/<>=~!@\#%^&|?]+ )
    """,
    re.VERBOSE | re.DOTALL,
)
_JUNK_AFTER_NUMBER = re.compile(r"[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_$\x80-\U0010ffff]*")
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_ESCAPE = re.compile(
    r"\\(?:x([0-9A-Fa-f]{1,2})|([0-7]{1,3})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))|''", re.DOTALL
)
_SIMPLE_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_MAY_END_IN_SIGN = frozenset("~!@#%^&|?")
_ASCII_UPPER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


def fold(name: str) -> str:
    """An unquoted name as it is stored: ASCII letters to lower case, as PostgreSQL does in UTF-8.

    >>> fold("Größe_ÄB")
    'größe_Äb'
    """
    return name.lower() if name.isascii() else name.translate(_ASCII_UPPER)


def tokenize(text: str) -> list[Token]:
    """The tokens of `text`, closed by an END token.

    Raises: SqlSyntaxError (42601) with the position: an unterminated string, name or comment, an
    empty quoted name, junk after a number, a character that starts no token.
    """
    return _Lexer(text).run()


class _Lexer:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[Token] = []

    def run(self) -> list[Token]:
        text, position, match = self.text, 0, _PATTERN.match
        add = self.tokens.append
        while position < len(text):
            found = match(text, position)
            if found is None:
                raise self.error(position, position + 1)
            kind = found.lastgroup
            end = found.end()
            if kind == "space":
                pass
            elif kind in ("single", "double"):
                add(Token(Kind.OPERATOR, found.group(), "", position, end))
            elif kind == "word":
                word = found.group()
                add(Token(Kind.WORD, word.upper(), fold(word), position, end))
            elif kind == "number":
                junk = _JUNK_AFTER_NUMBER.match(text, end)
                if junk:
                    near = text[position : junk.end()]
                    raise SqlSyntaxError(
                        f'trailing junk after numeric literal at or near "{near}"',
                        position=position,
                    )
                add(Token(Kind.NUMBER, "", found.group(), position, end))
            elif kind == "operator":
                end = self.operator(position, end)
            elif kind == "parameter":
                add(Token(Kind.PARAMETER, "", found.group()[1:], position, end))
            elif kind == "comment":
                end = self.skip_comment(position)
            elif kind == "dollar":
                end = self.dollar_string(position, found.group())
            else:
                assert kind is not None
                self.quoted(kind, found, position)
            position = end
        add(Token(Kind.END, "", "", len(text), len(text)))
        return self.tokens

    def error(self, start: int, end: int, what: str = "syntax error") -> SqlSyntaxError:
        return SqlSyntaxError(f'{what} at or near "{self.text[start:end]}"', position=start)

    def skip_comment(self, start: int) -> int:
        """The end of the comment that starts here; comments nest."""
        depth = 0
        for edge in _COMMENT_EDGE.finditer(self.text, start):
            depth += 1 if edge.group() == "/*" else -1
            if depth == 0:
                return edge.end()
        raise SqlSyntaxError(
            f'unterminated /* comment at or near "{self.text[start:]}"', position=start
        )

    def operator(self, start: int, end: int) -> int:
        """Cut an operator token from a run of operator characters; its end."""
        run = self.text[start:end]
        for comment in ("--", "/*"):
            cut = run.find(comment)
            if cut > 0:
                run = run[:cut]
        # a multi-character operator may end in + or - only if it also holds one of ~!@#%^&|?
        if len(run) > 1 and run[-1] in "+-" and not _MAY_END_IN_SIGN.intersection(run):
            run = run.rstrip("+-") or run[0]
        # PostgreSQL would read `*=` and the like as one operator; no such operator exists here
        self.tokens.append(Token(Kind.OPERATOR, run, "", start, start + len(run)))
        return start + len(run)

    def dollar_string(self, start: int, tag: str) -> int:
        """A dollar-quoted string; its end."""
        body = start + len(tag)
        close = self.text.find(tag, body)
        if close < 0:
            raise SqlSyntaxError(
                f'unterminated dollar-quoted string at or near "{self.text[start:]}"',
                position=start,
            )
        value = self.text[body:close]
        self.tokens.append(Token(Kind.STRING, "", value, start, close + len(tag)))
        return close + len(tag)

    def quoted(self, kind: str, found: re.Match[str], start: int) -> None:
        """Strings and quoted names of all kinds."""
        raw, end = found.group(), found.end()
        if found.group(f"{kind}_end") is None:
            what = "identifier" if kind in ("quoted", "backtick", "unicodename") else "string"
            names = {"bits": "bit string literal", "hex": "hexadecimal string literal"}
            subject = names.get(kind, f"quoted {what}")
            raise SqlSyntaxError(f'unterminated {subject} at or near "{raw}"', position=start)
        if kind == "string":
            value = raw[raw.index("'") + 1 : -1].replace("''", "'")
            self.string(value, start, end)
        elif kind == "escape":
            self.string(self.unescape(raw[2:-1], start), start, end)
        elif kind == "unicode":
            self.string(self.unicode(raw[3:-1].replace("''", "'"), start), start, end)
        elif kind in ("bits", "hex"):
            self.tokens.append(
                Token(Kind.BITS if kind == "bits" else Kind.HEX, "", raw[2:-1], start, end)
            )
        else:
            mark = "`" if kind == "backtick" else '"'
            name = raw[raw.index(mark) + 1 : -1].replace(mark * 2, mark)
            if kind == "unicodename":
                name = self.unicode(name, start)
            if not name:
                raise SqlSyntaxError(
                    f'zero-length delimited identifier at or near "{raw}"', position=start
                )
            self.tokens.append(Token(Kind.QUOTED, "", name, start, end))

    def string(self, value: str, start: int, end: int) -> None:
        """Add a string, or join it to the one before if only a line break lies between."""
        if "\x00" in value:
            raise SqlSyntaxError("invalid byte sequence for encoding: 0x00", position=start)
        if self.tokens:
            last = self.tokens[-1]
            plain = self.text[start] == "'" == self.text[last.start]
            if plain and last.kind is Kind.STRING:
                between = self.text[last.end : start]
                if "\n" in between and not between.strip():
                    last.value += value
                    last.end = end
                    return
        self.tokens.append(Token(Kind.STRING, "", value, start, end))

    def unescape(self, body: str, start: int) -> str:
        """The value of E'…'; runs of \\x and octal escapes are UTF-8 bytes."""
        if "\\" not in body and "''" not in body:
            return body
        out = bytearray()
        last = 0
        for escape in _ESCAPE.finditer(body):
            out += body[last : escape.start()].encode()
            last = escape.end()
            hex_byte, octal, short, long, other = escape.groups()
            if hex_byte is not None:
                out.append(int(hex_byte, 16))
            elif octal is not None:
                out.append(int(octal, 8) & 0xFF)
            elif short is not None or long is not None:
                out += self.code_point(short or long, start).encode("utf-8", "surrogatepass")
            elif other is None:
                out += b"'"
            else:
                out += _SIMPLE_ESCAPES.get(other, other).encode()
        out += body[last:].encode()
        try:
            # a pair of \\u surrogates is one character
            joined = out.decode("utf-8", "surrogatepass")
            return joined.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeError:
            raise SqlSyntaxError(
                'invalid byte sequence for encoding "UTF8"', position=start
            ) from None

    @staticmethod
    def code_point(digits: str, start: int) -> str:
        number = int(digits, 16)
        if number > 0x10FFFF or number == 0:
            raise SqlSyntaxError("invalid Unicode escape value", position=start)
        return chr(number)

    def unicode(self, body: str, start: int) -> str:
        """The value of U&'…' and U&"…" with the default escape character."""

        def replace(found: re.Match[str]) -> str:
            if found.group() == "\\\\":
                return "\\"
            return self.code_point(found.group(1) or found.group(2), start)

        value = re.sub(r"\\(?:\\|([0-9A-Fa-f]{4})|\+([0-9A-Fa-f]{6}))", replace, body)
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
