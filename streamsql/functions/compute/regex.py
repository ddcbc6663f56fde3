"""PostgreSQL's regular expressions and SIMILAR TO / LIKE patterns, for RE2 and for Python's `re`.

RE2 (in Arrow) takes nearly all of them and runs in linear time. What it has not (look-around, back
references) goes to Python's `re`, once per distinct value.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from streamsql.core.errors import InvalidRegularExpression

_CLASSES = {
    "alnum": "a-zA-Z0-9", "alpha": "a-zA-Z", "blank": " \\t", "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9", "graph": "!-~", "lower": "a-z", "print": " -~", "punct": "!-/:-@\\[-`{-~",
    "space": "\\s", "upper": "A-Z", "word": "\\w", "xdigit": "0-9A-Fa-f",
}  # fmt: skip
"""POSIX classes, as they stand inside of brackets; of letters, ASCII's alone."""
_RE2_CLASSES = {
    **_CLASSES, "alnum": "\\pL\\pN", "alpha": "\\pL", "lower": "\\p{Ll}", "upper": "\\p{Lu}",
    "word": "\\pL\\pM\\pN_",
}  # fmt: skip
_LETTERS: dict[str, Callable[[str], bool]] = {
    "alnum": str.isalnum, "alpha": str.isalpha, "lower": str.islower, "upper": str.isupper,
}  # fmt: skip
_ESCAPES = {"m": r"\b", "M": r"\b", "y": r"\b", "Y": r"\B", "Z": r"\z"}


@dataclass(frozen=True)
class Regex:
    """A translated pattern. re2: its text with every group named g1, g2, …; None if RE2 can not.
    groups: their number. ignore_case, global_: flags i and g."""

    source: str
    re2: str | None
    python: re.Pattern[str]
    groups: int
    ignore_case: bool
    global_: bool


@lru_cache(maxsize=1024)
def compile_regex(pattern: str, flags: str = "") -> Regex:
    """Translate an advanced regular expression of PostgreSQL. Raises: 2201B, 22023 by flags."""
    from streamsql.core.errors import InvalidParameterValue

    ignore_case = global_ = newline = False
    extended = False
    for f in flags:
        if f == "g":
            global_ = True
        elif f in "ic":
            ignore_case = f == "i"
        elif f in "nm":
            newline = True
        elif f == "s":
            newline = False
        elif f == "x":
            extended = True
        elif f not in "tepwqb":
            raise InvalidParameterValue(f'invalid regular expression option: "{f}"')
    body = pattern
    if "q" in flags:
        body = re.escape(pattern)
    m = re.match(r"\(\?([a-z]+)\)", body)
    if m:  # embedded options
        inner = compile_regex(body[m.end() :], flags.replace("g", "") + m[1])
        return Regex(pattern, inner.re2, inner.python, inner.groups, inner.ignore_case, global_)
    if body.startswith("***="):
        body = re.escape(body[4:])
    elif body.startswith("***:"):
        body = body[4:]
    translated, groups = _translate(body, _python_class)
    options = ("i" if ignore_case else "") + ("m" if newline else "s") + ("x" if extended else "")
    try:
        python = re.compile(f"(?{options}){translated.replace(chr(92) + 'z', chr(92) + 'Z')}")
    except re.error as e:
        raise InvalidRegularExpression(f"invalid regular expression: {_reason(e.msg)}") from None
    needs_python = extended or re.search(r"\(\?(?:[=!]|<[=!])|\\[1-9]", _without_escapes(body))
    re2 = None
    if not needs_python:
        re2 = f"(?{options}){_name_groups(_translate(body, _RE2_CLASSES.get)[0])}"
    return Regex(pattern, re2, python, groups, ignore_case, global_)


def _reason(message: str) -> str:
    """PostgreSQL's words for what Python's compiler found."""
    if "parenthesis" in message or "subpattern" in message:
        return "parentheses () not balanced"
    if "character set" in message:
        return "brackets [] not balanced"
    if "repeat" in message:
        return "quantifier operand invalid"
    return message


def _without_escapes(body: str) -> str:
    return body.replace("\\\\", "")


@lru_cache(maxsize=8)
def _python_class(name: str) -> str | None:
    """A POSIX class for Python's `re`, which knows no \\pL: the ranges of its characters."""
    belongs = _LETTERS.get(name)
    if belongs is None:
        return _CLASSES.get(name)
    members = [chr(c) for c in range(0x10000) if belongs(chr(c))]
    out: list[str] = []
    start = previous = members[0]
    for c in [*members[1:], "\0"]:
        if ord(c) != ord(previous) + 1:
            out.append(start if start == previous else f"{start}-{previous}")
            start = c
        previous = c
    return "".join(out)


def _check_braces(body: str, i: int) -> None:
    """{ before a digit opens a bound, {1}, {1,} or {1,2}; before anything else it is a character.

    Raises: InvalidRegularExpression (2201B).
    """
    if not body[i + 1 : i + 2].isdigit():
        return
    bound = re.compile(r"\{(\d+)(?:,(\d*))?\}").match(body, i)
    if bound is None:
        closed = "}" in body[i:]
        reason = "invalid repetition count(s)" if closed else "braces {} not balanced"
        raise InvalidRegularExpression(f"invalid regular expression: {reason}")
    low, high = int(bound[1]), int(bound[2]) if bound[2] else int(bound[1])
    if low > 255 or high > 255 or high < low:
        raise InvalidRegularExpression("invalid regular expression: invalid repetition count(s)")


def _translate(body: str, class_of: Callable[[str], str | None]) -> tuple[str, int]:
    """(pattern with PostgreSQL's escapes replaced, number of capturing groups). class_of: a POSIX
    class as it stands inside of brackets."""
    out: list[str] = []
    groups = 0
    i = 0
    in_class = False
    while i < len(body):
        c = body[i]
        if c == "\\":
            if i + 1 >= len(body):
                raise InvalidRegularExpression(
                    "invalid regular expression: invalid escape \\ sequence"
                )
            escaped = body[i + 1]
            out.append(_ESCAPES[escaped] if escaped in _ESCAPES and not in_class else c + escaped)
            i += 2
            continue
        if in_class:
            if body.startswith("[:", i):
                end = body.find(":]", i)
                members = class_of(body[i + 2 : end]) if end > 0 else None
                if members is None:
                    raise InvalidRegularExpression(
                        "invalid regular expression: invalid character class"
                    )
                out.append(members)
                i = end + 2
                continue
            in_class = c != "]"
            out.append("\\[" if c == "[" else c)
        elif body.startswith(("[[:<:]]", "[[:>:]]"), i):
            out.append(r"\b")
            i += 7
            continue
        elif c == "[":
            in_class = True
            out.append(c)
            for extra in ("^", "]"):
                if body.startswith(extra, i + 1):
                    out.append("\\]" if extra == "]" else extra)
                    i += 1
        else:
            if c == "{":
                _check_braces(body, i)
            if c == "(" and not body.startswith("(?", i):
                groups += 1
            out.append(c)
        i += 1
    if in_class:
        raise InvalidRegularExpression("invalid regular expression: brackets [] not balanced")
    return "".join(out), groups


def _name_groups(pattern: str) -> str:
    """Every capturing group named, as Arrow extracts only those; words not of ASCII alone."""
    out: list[str] = []
    number = 0
    i = 0
    in_class = False
    while i < len(pattern):
        c = pattern[i]
        if c == "\\":
            escape = pattern[i : i + 2]
            if escape == "\\w":
                escape = _RE2_CLASSES["word"] if in_class else f"[{_RE2_CLASSES['word']}]"
            elif escape == "\\W" and not in_class:
                escape = f"[^{_RE2_CLASSES['word']}]"
            out.append(escape)
            i += 2
            continue
        if in_class:
            in_class = c != "]"
        elif c == "[":
            in_class = True
        elif c == "(" and not pattern.startswith("(?", i):
            number += 1
            out.append(f"(?P<g{number}>")
            i += 1
            continue
        out.append(c)
        i += 1
    return "".join(out)


@lru_cache(maxsize=1024)
def similar_pattern(pattern: str, escape: str | None = "\\") -> str:
    """SIMILAR TO as an anchored regular expression."""
    out: list[str] = []
    i = 0
    in_class = False
    while i < len(pattern):
        c = pattern[i]
        if escape and c == escape:
            if i + 1 < len(pattern):
                out.append("\\" + pattern[i + 1])  # \m and its kin mean what they do in a regex
            i += 2
            continue
        if in_class:
            in_class = c != "]"
            out.append("\\\\" if c == "\\" else c)
        elif c == "[":
            in_class = True
            out.append(c)
        elif c == "%":
            out.append(".*")
        elif c == "_":
            out.append(".")
        elif c == "(":
            out.append("(?:")
        elif c in ".^$\\":
            out.append("\\" + c)
        else:
            out.append(c)
        i += 1
    return f"^(?:{''.join(out)})$"


@lru_cache(maxsize=1024)
def like_pattern(pattern: str, escape: str) -> str | None:
    """The LIKE pattern with backslash as its escape; None if it ends with the escape character."""
    out: list[str] = []
    i = 0
    while i < len(pattern):
        c = pattern[i]
        if escape and c == escape:
            if i + 1 >= len(pattern):
                return None
            following = pattern[i + 1]
            out.append("\\" + following if following in "%_\\" else following)
            i += 2
            continue
        out.append("\\\\" if c == "\\" else c)
        i += 1
    return "".join(out)


def like_regex(pattern: str, escape: str) -> str | None:
    """A LIKE pattern as an anchored regular expression (for Unicode ILIKE)."""
    normal = like_pattern(pattern, escape)
    if normal is None:
        return None
    out: list[str] = []
    i = 0
    while i < len(normal):
        c = normal[i]
        if c == "\\":
            out.append(re.escape(normal[i + 1]))
            i += 2
            continue
        out.append(".*" if c == "%" else "." if c == "_" else re.escape(c))
        i += 1
    return f"^(?s:{''.join(out)})$"


def re2_replacement(text: str) -> str:
    """PostgreSQL's replacement (\\1, \\&) as RE2's (\\1, \\0)."""
    return re.sub(
        r"\\(.)", lambda m: m[0] if m[1] in "123456789\\" else "\\0" if m[1] == "&" else m[1], text
    )


def python_replacement(text: str) -> str:
    """The same for Python's `re`."""
    return re.sub(
        r"\\(.)",
        lambda m: f"\\g<{m[1]}>" if m[1] in "123456789" else "\\g<0>" if m[1] == "&"
        else "\\\\" if m[1] == "\\" else m[1],
        text,
    )  # fmt: skip
