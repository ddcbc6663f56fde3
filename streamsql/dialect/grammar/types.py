"""Type names in casts, column definitions and typed literals: tokens to exp.DataType."""

from __future__ import annotations

from sqlglot import exp

from streamsql.core.interval_fields import is_range, modifier
from streamsql.dialect.grammar.cursor import Cursor
from streamsql.dialect.keywords import RESERVED
from streamsql.dialect.lexer import Kind, Token
from streamsql.dialect.positions import mark

# plain words to sqlglot's type; what is not here keeps its name (a USERDEFINED type), so that
# catalog types (regclass, name, oid, "char") and mistakes reach the binder as they were written
TYPE_WORDS: dict[str, str] = {
    "bool": "BOOLEAN", "boolean": "BOOLEAN",
    "int2": "SMALLINT", "smallint": "SMALLINT", "tinyint": "SMALLINT",
    "int": "INT", "integer": "INT", "int4": "INT",
    "int8": "BIGINT", "bigint": "BIGINT",
    "float4": "FLOAT", "real": "FLOAT",
    "float8": "DOUBLE", "double": "DOUBLE",
    "numeric": "DECIMAL", "decimal": "DECIMAL", "dec": "DECIMAL",
    "text": "TEXT", "string": "TEXT",
    "varchar": "VARCHAR", "char": "CHAR", "character": "CHAR", "bpchar": "BPCHAR", "nchar": "CHAR",
    "bytea": "VARBINARY", "bytes": "VARBINARY", "varbinary": "VARBINARY", "blob": "VARBINARY",
    "date": "DATE", "time": "TIME",
    "timestamp": "TIMESTAMP", "timestamptz": "TIMESTAMPTZ", "timestamp_ltz": "TIMESTAMPTZ",
    "interval": "INTERVAL", "uuid": "UUID", "json": "JSON", "jsonb": "JSONB",
}  # fmt: skip


class TypeGrammar(Cursor):
    """Parses type names."""

    def data_type(self) -> exp.DataType:
        """A type with its modifiers and array bounds, e.g. `numeric(10, 2)[]`."""
        start = self.token
        if self.token.key == "SETOF":
            raise self.error()
        found = self._simple_type()
        while True:
            if self.accept("["):
                if self.token.kind is Kind.NUMBER:
                    self.advance()
                self.expect("]")
            elif self.token.key == "LIST" and self.dialect == "materialize":
                self.advance()
            elif self.token.key == "ARRAY":
                self.advance()
                if self.accept("["):
                    self.integer()
                    self.expect("]")
            else:
                break
            found = exp.DataType(this=exp.DType.ARRAY, expressions=[found], nested=True)
        return mark(found, start)

    def _simple_type(self) -> exp.DataType:
        token = self.token
        if token.kind is Kind.QUOTED:
            return self._named_type()
        if token.kind is not Kind.WORD or (token.key in RESERVED and token.key != "ARRAY"):
            raise self.error()
        special = _SPECIAL_TYPES.get(token.key)
        if special is not None and self.peek().key != ".":
            found = special(self)
            if found is not None:
                return found
        return self._named_type()

    def _named_type(self) -> exp.DataType:
        """A type by its plain or qualified name; pg_catalog is the default schema of types."""
        quoted = self.token.kind is Kind.QUOTED
        parts = [self.label()]
        while self.accept("."):
            quoted = self.token.kind is Kind.QUOTED
            parts.append(self.label())
        if parts[0] == "pg_catalog" and len(parts) > 1:
            parts.pop(0)
        modifiers = self._modifiers()
        word = (
            None if len(parts) > 1 or (quoted and parts[0] == "char") else TYPE_WORDS.get(parts[0])
        )
        if self.at("UNSIGNED"):
            self.differs("types", "there are no unsigned numbers here")
            self.advance()
        if word is not None:
            return exp.DataType(this=exp.DType[word], expressions=modifiers)
        name = ".".join(parts) if not (quoted and parts[0] == "char") else '"char"'
        return exp.DataType(this=exp.DType.USERDEFINED, kind=name, expressions=modifiers)

    def _modifiers(self) -> list[exp.DataTypeParam]:
        if not self.accept("("):
            return []
        found = self.comma_list(lambda: exp.DataTypeParam(this=exp.Literal.number(self.integer())))
        self.expect(")")
        return found

    def _time_type(self) -> exp.DataType | None:
        """TIME and TIMESTAMP with precision and zone."""
        word = self.advance().key
        modifiers = self._digits(word)
        zoned = False
        if self.accept_sequence("WITH", "TIME", "ZONE") or self.accept_sequence(
            "WITH", "LOCAL", "TIME", "ZONE"
        ):
            zoned = True
        else:
            self.accept_sequence("WITHOUT", "TIME", "ZONE")
        name = {"TIME": "TIMETZ" if zoned else "TIME"}.get(
            word, "TIMESTAMPTZ" if zoned else "TIMESTAMP"
        )
        return exp.DataType(this=exp.DType[name], expressions=modifiers)

    def _digits(self, word: str) -> list[exp.DataTypeParam]:
        """How many digits of a second's fraction are kept: `(3)`."""
        modifiers = self._modifiers()
        if modifiers and int(modifiers[0].this.name) > MAX_DIGITS:
            given = f"{word}({modifiers[0].this.name})"
            notice = f"{given} precision reduced to maximum allowed, {MAX_DIGITS}"
            if notice not in self.notices:
                self.notices.append(notice)
        return modifiers

    def _double(self) -> exp.DataType | None:
        self.advance()
        self.accept("PRECISION")
        return exp.DataType(this=exp.DType.DOUBLE)

    def _character(self) -> exp.DataType | None:
        national = self.accept("NATIONAL")
        if national and not self.at("CHAR", "CHARACTER"):
            raise self.error()
        self.advance()
        varying = self.accept("VARYING")
        modifiers = self._modifiers()
        if modifiers and not varying and modifiers[0].this.name != "1":
            notice = "char(n) is varchar(n): texts are kept as written, not padded with blanks"
            if notice not in self.notices:
                self.notices.append(notice)
        return exp.DataType(
            this=exp.DType.VARCHAR if varying else exp.DType.CHAR, expressions=modifiers
        )

    def _bit(self) -> exp.DataType | None:
        self.advance()
        kind = "bit varying" if self.accept("VARYING") else "bit"
        return exp.DataType(this=exp.DType.USERDEFINED, kind=kind, expressions=self._modifiers())

    def _float(self) -> exp.DataType | None:
        self.advance()
        bits = self._modifiers()
        single = bool(bits) and int(bits[0].this.name) <= 24
        return exp.DataType(this=exp.DType.FLOAT if single else exp.DType.DOUBLE)

    def _interval_type(self) -> exp.DataType | None:
        given = self._digits(self.advance().key)
        fields, digits = self.interval_fields()
        number = interval_modifier(fields, given or digits)
        return exp.DataType(this=exp.DType.INTERVAL, expressions=number)

    def interval_fields(self) -> tuple[exp.Expression | None, list[exp.DataTypeParam]]:
        """(the fields after an interval: `DAY`, `HOUR TO MINUTE`, `SECOND(3)`, None if none; how
        many digits of a second they keep)."""
        if self.token.kind is not Kind.WORD or self.token.key.rstrip("S") not in INTERVAL_UNITS:
            return None, []
        unit, digits = self._interval_field()
        known = [last for last in INTERVAL_UNITS if is_range(unit.name.lower(), last.lower())]
        if known in ([], [unit.name]) or not self.accept("TO"):
            return unit, digits
        if self.token.key.rstrip("S") not in known or self.token.key.rstrip("S") == unit.name:
            raise self.error()
        last, digits = self._interval_field()
        return exp.IntervalSpan(this=unit, expression=last), digits

    def _interval_field(self) -> tuple[exp.Var, list[exp.DataTypeParam]]:
        unit = exp.Var(this=self.advance().key.rstrip("S"))
        if unit.name == "SECOND":
            return unit, self._digits("INTERVAL")
        self._modifiers()  # Flink's DAY(3): of days all digits are kept
        return unit, []

    def _struct_type(self) -> exp.DataType | None:
        """STRUCT<a INT, …>, STRUCT(a INT, …), ROW(…): fields are name and type."""
        if self.peek().key not in ("<", "("):
            return None
        self.advance()
        close = ">" if self.advance().key == "<" else ")"
        fields = self.comma_list(self._struct_field)
        self._close_angle(close)
        return exp.DataType(this=exp.DType.STRUCT, expressions=fields, nested=True)

    def _struct_field(self) -> exp.ColumnDef:
        token = self.token
        name = mark(exp.Identifier(this=self.any_name(), quoted=True), token)
        self.accept(":")
        kind = self.data_type()
        if self.accept_sequence("NOT", "NULL"):  # Flink; a field of ours may always be NULL
            pass
        if self.at_string():  # Flink's comment on a field
            self.advance()
        return exp.ColumnDef(this=name, kind=kind)

    def _map_type(self) -> exp.DataType | None:
        """MAP(k, v), MAP<k, v>, Materialize's MAP[k => v]."""
        brackets = {"(": ")", "<": ">", "[": "]"}
        if self.peek().key not in brackets:
            return None
        self.advance()
        close = brackets[self.advance().key]
        key = self.data_type()
        if not self.accept(",", "=>"):
            raise self.error()
        value = self.data_type()
        self._close_angle(close)
        return exp.DataType(this=exp.DType.MAP, expressions=[key, value], nested=True)

    def _array_type(self) -> exp.DataType | None:
        """Flink's and ksqlDB's ARRAY<t>."""
        if self.peek().key != "<":
            raise self.error()
        self.advance()
        self.advance()
        element = self.data_type()
        self._close_angle(">")
        return exp.DataType(this=exp.DType.ARRAY, expressions=[element], nested=True)

    def _close_angle(self, close: str) -> None:
        """Take `close`; a token like `>>` (two types that end together) is cut into its parts."""
        token = self.token
        if close == ">" and len(token.key) > 1 and set(token.key) == {">"}:
            self.tokens[self.index : self.index + 1] = [
                Token(Kind.OPERATOR, ">", "", token.start + i, token.start + i + 1)
                for i in range(len(token.key))
            ]
            self.token = self.tokens[self.index]
        self.expect(close)


MAX_DIGITS = 6


def interval_modifier(
    fields: exp.Expression | None, digits: list[exp.DataTypeParam]
) -> list[exp.DataTypeParam]:
    """The modifier of an interval type with these fields and digits (core/interval_fields.py)."""
    kept = min(int(digits[0].this.name), MAX_DIGITS) if digits else None
    number = kept
    if isinstance(fields, exp.IntervalSpan):
        number = modifier(fields.this.name.lower(), fields.expression.name.lower(), kept)
    elif fields is not None:
        number = modifier(fields.name.lower(), fields.name.lower(), kept)
    return [] if number is None else [exp.DataTypeParam(this=exp.Literal.number(number))]


INTERVAL_UNITS = frozenset(
    {
        "YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND", "WEEK", "QUARTER", "MILLISECOND",
        "MICROSECOND", "DECADE", "CENTURY", "MILLENNIUM",
    }
)  # fmt: skip

_SPECIAL_TYPES = {
    "TIME": TypeGrammar._time_type,
    "TIMESTAMP": TypeGrammar._time_type,
    "DOUBLE": TypeGrammar._double,
    "CHARACTER": TypeGrammar._character,
    "CHAR": TypeGrammar._character,
    "NCHAR": TypeGrammar._character,
    "NATIONAL": TypeGrammar._character,
    "BIT": TypeGrammar._bit,
    "FLOAT": TypeGrammar._float,
    "INTERVAL": TypeGrammar._interval_type,
    "STRUCT": TypeGrammar._struct_type,
    "ROW": TypeGrammar._struct_type,
    "MAP": TypeGrammar._map_type,
    "ARRAY": TypeGrammar._array_type,
}
