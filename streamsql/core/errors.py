"""Every error streamsql raises, by who can act on it; the class carries the SQLSTATE.

Three branches: `StatementError` (the user's statement or data; the session lives on),
`OperationalError` (the world: disk, network, memory, cancel) and `InvariantViolation`
(our bug or corrupt state; stop before anything is written).
"""

from __future__ import annotations


class StreamSqlError(Exception):
    """Base of all errors.

    `sqlstate` is set per class; `position` is the 0-based character offset in the statement text
    (the wire sends it 1-based), `detail` and `hint` are full sentences.
    """

    sqlstate = "XX000"

    def __init_subclass__(cls, *, sqlstate: str | None = None, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if sqlstate is not None:
            cls.sqlstate = sqlstate

    def __init__(
        self,
        message: str,
        *,
        position: int | None = None,
        detail: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.position = position
        self.detail = detail
        self.hint = hint

    def at(self, position: int | None) -> StreamSqlError:
        """Set the position unless one is known already; returns self, for `raise error.at(p)`."""
        if self.position is None:
            self.position = position
        return self


class StatementError(StreamSqlError, sqlstate="42000"):
    """The statement or the data in it is wrong; nothing was changed."""


class OperationalError(StreamSqlError, sqlstate="58000"):
    """The world failed: disk, network, memory, cancellation."""


class InvariantViolation(StreamSqlError, sqlstate="XX000"):
    """A bug of ours or corrupt state."""


# --- class 42: syntax, names, types -------------------------------------------------------------
class SqlSyntaxError(StatementError, sqlstate="42601"): ...


class UndefinedColumn(StatementError, sqlstate="42703"): ...


class UndefinedTable(StatementError, sqlstate="42P01"): ...


class UndefinedFunction(StatementError, sqlstate="42883"): ...


class UndefinedObject(StatementError, sqlstate="42704"): ...


class UndefinedParameter(StatementError, sqlstate="42P02"): ...


class AmbiguousColumn(StatementError, sqlstate="42702"): ...


class AmbiguousFunction(StatementError, sqlstate="42725"): ...


class AmbiguousParameter(StatementError, sqlstate="42P08"): ...


class DuplicateColumn(StatementError, sqlstate="42701"): ...


class DuplicateTable(StatementError, sqlstate="42P07"): ...


class DuplicateAlias(StatementError, sqlstate="42712"): ...


class DuplicateSchema(StatementError, sqlstate="42P06"): ...


class DuplicateObject(StatementError, sqlstate="42710"): ...


class DuplicatePreparedStatement(StatementError, sqlstate="42P05"): ...


class DuplicateCursor(StatementError, sqlstate="42P03"): ...


class DatatypeMismatch(StatementError, sqlstate="42804"): ...


class CannotCoerce(StatementError, sqlstate="42846"): ...


class IndeterminateDatatype(StatementError, sqlstate="42P18"): ...


class GroupingError(StatementError, sqlstate="42803"): ...


class WindowingError(StatementError, sqlstate="42P20"): ...


class InvalidColumnReference(StatementError, sqlstate="42P10"): ...


class InvalidTableDefinition(StatementError, sqlstate="42P16"): ...


class InvalidObjectDefinition(StatementError, sqlstate="42P17"): ...


class InvalidRecursion(StatementError, sqlstate="42P19"): ...


class InvalidName(StatementError, sqlstate="42602"): ...


class WrongObjectType(StatementError, sqlstate="42809"): ...


class GeneratedAlways(StatementError, sqlstate="428C9"): ...


class InsufficientPrivilege(StatementError, sqlstate="42501"): ...


class ReservedName(StatementError, sqlstate="42939"): ...


class FeatureNotSupported(StatementError, sqlstate="0A000"): ...


class DependentObjectsStillExist(StatementError, sqlstate="2BP01"): ...


class UndefinedSchema(StatementError, sqlstate="3F000"): ...


class UndefinedDatabase(StatementError, sqlstate="3D000"): ...


# --- class 21, 22: data -------------------------------------------------------------------------
class CardinalityViolation(StatementError, sqlstate="21000"): ...


class DataError(StatementError, sqlstate="22000"): ...


class NumericValueOutOfRange(DataError, sqlstate="22003"): ...


class NullValueNotAllowed(DataError, sqlstate="22004"): ...


class InvalidDatetimeFormat(DataError, sqlstate="22007"): ...


class DatetimeFieldOverflow(DataError, sqlstate="22008"): ...


class DivisionByZero(DataError, sqlstate="22012"): ...


class InvalidArgumentForLogarithm(DataError, sqlstate="2201E"): ...


class InvalidArgumentForNtile(DataError, sqlstate="22014"): ...


class InvalidArgumentForNthValue(DataError, sqlstate="22016"): ...


class InvalidArgumentForPower(DataError, sqlstate="2201F"): ...


class InvalidRowCountInLimit(DataError, sqlstate="2201W"): ...


class InvalidRowCountInOffset(DataError, sqlstate="2201X"): ...


class InvalidRegularExpression(DataError, sqlstate="2201B"): ...


class StringTooLong(DataError, sqlstate="22001"): ...


class InvalidParameterValue(DataError, sqlstate="22023"): ...


class InvalidFrameOffset(DataError, sqlstate="22013"): ...


class SubstringError(DataError, sqlstate="22011"): ...


class InvalidEscapeSequence(DataError, sqlstate="22025"): ...


class CharacterNotInRepertoire(DataError, sqlstate="22021"): ...


class InvalidArgumentForWidthBucket(DataError, sqlstate="2201G"): ...


class UntranslatableCharacter(DataError, sqlstate="22P05"): ...


class ArraySubscriptError(DataError, sqlstate="2202E"): ...


class InvalidTextRepresentation(DataError, sqlstate="22P02"): ...


class InvalidBinaryRepresentation(DataError, sqlstate="22P03"): ...


class BadCopyFileFormat(DataError, sqlstate="22P04"): ...


# --- class 23: constraints ----------------------------------------------------------------------
class IntegrityError(StatementError, sqlstate="23000"): ...


class CheckViolation(StatementError, sqlstate="23514"): ...


class NotNullViolation(IntegrityError, sqlstate="23502"): ...


class UniqueViolation(IntegrityError, sqlstate="23505"): ...


# --- transactions, cursors, sessions ------------------------------------------------------------
class InFailedTransaction(StatementError, sqlstate="25P02"): ...


class ActiveTransaction(StatementError, sqlstate="25001"): ...


class NoActiveTransaction(StatementError, sqlstate="25P01"): ...


class ReadOnlyTransaction(StatementError, sqlstate="25006"): ...


class InvalidPreparedStatementName(StatementError, sqlstate="26000"): ...


class InvalidCursorName(StatementError, sqlstate="34000"): ...


class InvalidSavepoint(StatementError, sqlstate="3B001"): ...


class SerializationFailure(StatementError, sqlstate="40001"): ...


class ObjectNotInPrerequisiteState(StatementError, sqlstate="55000"): ...


class CannotChangeRuntimeParameter(StatementError, sqlstate="55P02"): ...


class ProtocolViolation(StatementError, sqlstate="08P01"): ...


class InvalidAuthorization(StatementError, sqlstate="28000"): ...


# --- the world ----------------------------------------------------------------------------------
class QueryCanceled(OperationalError, sqlstate="57014"): ...


class AdminShutdown(OperationalError, sqlstate="57P01"): ...


class DiskError(OperationalError, sqlstate="58030"): ...


class DataDirectoryInUse(OperationalError, sqlstate="55006"): ...


class OutOfMemory(OperationalError, sqlstate="53200"): ...


class StatementTooComplex(OperationalError, sqlstate="54001"): ...


class ProgramLimitExceeded(OperationalError, sqlstate="54000"): ...


class DataCorrupted(InvariantViolation, sqlstate="XX001"): ...


class NegativeWeight(InvariantViolation, sqlstate="XX001"): ...
