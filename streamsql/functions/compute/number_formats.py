"""The templates of to_char(number) and to_number."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import lru_cache

from streamsql.core.errors import InvalidTextRepresentation
from streamsql.functions.compute.char_formats import ROMAN

_WIDE = Context(prec=200)
_TOKEN = re.compile(
    r'"([^"]*)"|(FM|fm|MI|mi|PL|pl|SG|sg|PR|pr|TH|th|EEEE|eeee|RN|rn|V|v)|(.)', re.S
)


@dataclass(frozen=True)
class Template:
    """tokens: 9 0 . , D G S L or literal text ("='…"). The flags say what stands anywhere."""

    tokens: tuple[str, ...]
    fill: bool
    whole: int
    decimals: int
    zero_from: int | None
    zero_until: int | None
    sign: str
    roman: bool
    exponent: bool
    ordinal: str
    shift: int


@lru_cache(maxsize=512)
def compile_number(template: str) -> Template:
    """Read the template."""
    tokens: list[str] = []
    fill = roman = exponent = point = False
    sign = ordinal = ""
    whole = decimals = shift = 0
    zero_from: int | None = None
    zero_until: int | None = None
    shifting = False
    for m in _TOKEN.finditer(template):
        word = (m[2] or "").upper()
        if m[1] is not None:
            tokens.append("=" + m[1])
        elif word == "FM":
            fill = True
        elif word in ("MI", "PL", "SG", "PR"):
            sign = word
            tokens.append(word)
        elif word == "TH":
            ordinal = m[2]
        elif word == "RN":
            roman = True
        elif word == "EEEE":
            exponent = True
        elif word == "V":
            shifting = True
        elif m[3] in ("9", "0"):
            tokens.append(m[3])
            if shifting:
                shift += 1
            if point:
                decimals += 1
                if m[3] == "0":
                    zero_until = decimals
            else:
                whole += 1
                if m[3] == "0" and zero_from is None:
                    zero_from = whole
        elif m[3] in (".", "D", "d"):
            point = True
            tokens.append(".")
        elif m[3] in (",", "G", "g"):
            tokens.append(",")
        elif m[3] in ("S", "s"):
            sign = "S"
            tokens.append("S")
        elif m[3] in ("L", "l"):
            tokens.append("= ")
        else:
            tokens.append("=" + m[3])
    return Template(tuple(tokens), fill, whole, decimals, zero_from, zero_until, sign, roman,
                    exponent, ordinal, shift)  # fmt: skip


def render_number(template: str, value: Decimal) -> str:
    """to_char of one number."""
    t = compile_number(template)
    if not value.is_finite():
        return _not_finite(value, t)
    if t.roman:
        return _roman(value, t)
    if t.exponent:
        return _scientific(value, t)
    if t.shift:
        value = _WIDE.multiply(value, Decimal(10) ** t.shift)
    quantum = Decimal(1).scaleb(-t.decimals)
    negative = value < 0
    if value.adjusted() > t.whole:  # too long, whatever its digits
        return _fill_template(t, "#" * t.whole, "#" * t.decimals, negative)
    rounded = value.copy_abs().quantize(quantum, rounding=ROUND_HALF_UP, context=_WIDE)
    negative = negative and rounded != 0
    whole, _, fraction = f"{rounded:f}".partition(".")
    if whole == "0" and t.decimals:
        whole = ""
    if len(whole) > t.whole:
        whole, fraction = "#" * t.whole, "#" * t.decimals
    body = _fill_template(t, whole, fraction, negative)
    return body


def _not_finite(value: Decimal, t: Template) -> str:
    """NaN and infinities: their names where the places before the point are enough."""
    if t.roman:
        return "#" * 15
    if t.exponent:
        return f" {'#' * t.whole}.{'#' * (t.decimals + 4)}"
    signed = "S" in t.tokens or "SG" in t.tokens
    negative = value.is_infinite() and value < 0
    sign = "-" if negative else "+" if signed else "" if t.fill else " "
    name = "NaN" if value.is_nan() else "Infinity"
    if len(name) > t.whole:
        return sign + "#" * t.whole + ("." + "#" * t.decimals if t.decimals else "")
    padding = "" if t.fill or signed else " " * (t.whole - len(name))
    return padding + sign + name


def _fill_template(t: Template, whole: str, fraction: str, negative: bool) -> str:
    digits = whole.rjust(t.whole)
    if t.zero_from is not None:
        cut = t.zero_from - 1
        digits = digits[:cut] + digits[cut:].replace(" ", "0")
    if not whole and t.zero_from is None and not t.decimals:
        digits = digits[:-1] + "0"
    out: list[str] = []
    i = j = 0
    seen_point = started = False
    first_digit = len(digits) - len(digits.lstrip(" "))
    shown_fraction = fraction
    if t.fill:
        keep = t.zero_until or 0
        shown_fraction = fraction[:keep] + fraction[keep:].rstrip("0")
    for token in t.tokens:
        if token in ("9", "0"):
            if seen_point:
                if j < len(shown_fraction):
                    out.append(shown_fraction[j])
                j += 1
                continue
            c = digits[i] if i < len(digits) else " "
            started = started or i >= first_digit
            i += 1
            if c != " " or not t.fill:
                out.append(c)
        elif token == ".":
            seen_point = True
            if not (t.fill and not shown_fraction and t.decimals == 0):
                out.append(".")
        elif token == ",":
            if started:
                out.append(",")
            elif not t.fill:
                out.append(" ")
        elif token.startswith("="):
            out.append(token[1:])
        elif token in ("S", "MI", "PL", "SG", "PR"):
            out.append("\0" + token)
    return _with_sign(t, out, negative)


def _with_sign(t: Template, out: list[str], negative: bool) -> str:
    signs = {
        "MI": "-" if negative else ("" if t.fill else " "),
        "PL": " " if negative and not t.fill else ("" if negative else "+"),
        "SG": "-" if negative else "+",
    }
    if t.sign == "S":
        mark = "-" if negative else "+"
        at = out.index("\0S")
        out = [c for c in out if c != "\0S"]
        if at >= len(out):
            return "".join(out) + mark
        text = "".join(out)
        lead = len(text) - len(text.lstrip(" "))
        return text[:lead] + mark + text[lead:]
    if t.sign == "PR":
        text = "".join(c for c in out if c != "\0PR")
        lead = len(text) - len(text.lstrip(" "))
        if negative:
            return text[:lead] + "<" + text[lead:] + ">"
        return text if t.fill else f"{text[:lead]} {text[lead:]} "
    if t.sign:
        text = "".join(signs[c[1:]] if c.startswith("\0") else c for c in out)
        if t.sign == "PL" and negative:
            lead = len(text) - len(text.lstrip(" "))
            text = text[:lead] + "-" + text[lead:]
        return text
    head = "".join(k[1:] for k in _leading_literals(t))  # the sign belongs to the number
    text = "".join(out)[len(head) :]
    lead = len(text) - len(text.lstrip(" "))
    if negative:
        return head + text[:lead] + "-" + text[lead:]
    text = head + (text if t.fill else " " + text)
    return text if not t.ordinal else text + _ordinal(text.strip(), t.ordinal)


def _leading_literals(t: Template) -> list[str]:
    """Literal tokens before the first digit place; a currency sign is none of them."""
    found: list[str] = []
    for token in t.tokens:
        if not token.startswith("=") or token == "= ":
            break
        found.append(token)
    return found


def _ordinal(number: str, suffix: str) -> str:
    teen = number[-2:-1] == "1"
    end = "th" if teen else {"1": "st", "2": "nd", "3": "rd"}.get(number[-1:], "th")
    return end.upper() if suffix == "TH" else end


def _roman(value: Decimal, t: Template) -> str:
    number = int(value.to_integral_value(rounding=ROUND_HALF_UP))
    if not 1 <= number <= 3999:
        return "#" * 15
    tens = ("", "X", "X" * 2, "X" * 3, "XL", "L", "LX", "LX" + "X", "LX" + "X" * 2, "XC")
    hundreds = ("", "C", "CC", "CCC", "CD", "D", "DC", "DCC", "DCCC", "CM")
    ones = ["", *ROMAN[:9]]
    text = "M" * (number // 1000) + hundreds[number // 100 % 10]
    text += tens[number // 10 % 10] + ones[number % 10]
    return text if t.fill else text.rjust(15)


def _scientific(value: Decimal, t: Template) -> str:
    shown = f"{value:.{t.decimals}e}"
    mantissa, _, exponent = shown.partition("e")
    power = int(exponent)
    sign = "" if value < 0 else ("" if t.fill else " ")
    return f"{sign}{mantissa}e{'-' if power < 0 else '+'}{abs(power):02d}"


def parse_number(template: str, text: str) -> Decimal:
    """to_number: the digits of the text where the template has places. Raises: 22P02."""
    t = compile_number(template)
    negative = "-" in text or ("<" in text and ">" in text)
    body = re.sub(r"[^0-9.]", "", text)
    whole, _, fraction = body.partition(".")
    if not whole and not fraction:
        raise InvalidTextRepresentation(f'invalid input syntax for type numeric: "{text}"')
    value = Decimal(f"{whole[: t.whole] or '0'}.{fraction[: t.decimals] or '0'}")
    if t.shift:
        value = _WIDE.divide(value, Decimal(10) ** t.shift)
    return value.copy_negate() if negative else value
