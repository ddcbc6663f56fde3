"""The protocol without sockets: messages in, replies out, on a fake session."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest
from streamsql_server.conversation.conversation import Conversation
from streamsql_server.protocol.connection import FatalProtocolError, ProtocolConnection

from tests.server import wire
from tests.server.fake import FakeDatabase, FakeSession
from tests.server.wire import FLUSH, SYNC, Reply, bind, describe, execute, parse, query


class Wire:
    """A conversation with its replies in a list."""

    def __init__(self, database: FakeDatabase) -> None:
        self.session: FakeSession = database.session()
        self.protocol = ProtocolConnection()
        self.sent = b""
        self.buffer = b""
        self.conversation = Conversation(self.session, self.protocol, self)
        self.conversation.greet(b"")
        self.buffer = self.sent = b""

    def send(self, data: bytes | memoryview) -> None:
        self.buffer += bytes(data)

    def flush(self) -> None:
        self.sent += self.buffer
        self.buffer = b""

    def wait_writable(self) -> None:
        self.conversation.activity.check()

    def __call__(self, *data: bytes) -> list[Reply]:
        """Sends all in one piece; the replies that were flushed."""
        self.sent = b""
        self.protocol.receive(b"".join(data))
        while (event := self.protocol.next_event()) is not None:
            self.conversation.handle(event)
        return wire.split(self.sent)


@pytest.fixture
def database() -> Iterator[FakeDatabase]:
    fake = FakeDatabase()
    yield fake
    fake.close()


@pytest.fixture
def client(database: FakeDatabase) -> Wire:
    return Wire(database)


def error_of(replies: list[Reply]) -> dict[str, str]:
    [error] = [reply for reply in replies if reply.type == "E"]
    return error.fields


# --- simple queries -------------------------------------------------------------------------------
def test_simple_query_describes_rows_and_is_ready(client: Wire) -> None:
    replies = client(query("SELECT 1 AS a, NULL::VARCHAR AS b"))
    assert wire.types(replies) == "TDCZ"
    assert [(c[0], c[3], c[4]) for c in replies[0].columns] == [("a", 23, 4), ("b", 25, -1)]
    assert replies[1].values == [b"1", None]
    assert (replies[2].word, replies[3].body) == ("SELECT 1", b"I")


def test_empty_query_is_answered(client: Wire) -> None:
    assert wire.types(client(query("  ; "))) == "IZ"


def test_simple_query_of_several_statements_answers_each(client: Wire) -> None:
    replies = client(query("SELECT 1; SELECT 2; CREATE TABLE t(a INT)"))
    assert wire.types(replies) == "TDCTDCCZ"
    assert replies[-1].body == b"I"


def test_error_in_several_statements_undoes_all_and_drops_the_rest(client: Wire) -> None:
    client(query("CREATE TABLE t(a INT)"))
    replies = client(query("INSERT INTO t VALUES (1); FAIL x; INSERT INTO t VALUES (2)"))
    assert wire.types(replies) == "CEZ"
    assert replies[-1].body == b"I"
    assert client(query("SELECT count(*) FROM t"))[1].values == [b"0"]
    assert "INSERT INTO t VALUES (2)" not in client.session.log


def test_error_fields_are_those_of_the_exception(client: Wire) -> None:
    fields = error_of(client(query("FAIL x")))
    assert fields == {
        "S": "ERROR", "V": "ERROR", "C": "22012", "M": "division by zero", "D": "It is.",
        "H": "Do not.", "P": "4",
    }  # fmt: skip


def test_position_counts_from_the_start_of_the_whole_text(client: Wire) -> None:
    assert error_of(client(query("SELECT 1; FAIL x")))["P"] == str(len("SELECT 1; ") + 4)
    replies = client(parse("/* é */ FAIL x"), bind(), execute(), SYNC)
    assert error_of(replies)["P"] == "12"


def test_bug_in_the_engine_is_xx000_and_the_session_lives(client: Wire) -> None:
    fields = error_of(client(query("FAIL hard")))
    assert fields["C"] == "XX000"
    assert "Traceback" not in fields["M"]
    assert wire.types(client(query("SELECT 1"))) == "TDCZ"


def test_transaction_status_is_shown(client: Wire) -> None:
    assert client(query("BEGIN"))[-1].body == b"T"
    assert client(query("FAIL x"))[-1].body == b"E"
    assert error_of(client(query("SELECT 1")))["C"] == "25P02"
    replies = client(query("COMMIT"))
    assert (replies[0].word, replies[1].body) == ("ROLLBACK", b"I")


def test_begin_among_several_statements_makes_the_transaction_explicit(client: Wire) -> None:
    replies = client(query("CREATE TABLE t(a INT); BEGIN; INSERT INTO t VALUES (1)"))
    assert wire.types(replies) == "CCCZ"
    assert replies[-1].body == b"T"
    client(query("ROLLBACK"))
    assert error_of(client(query("SELECT * FROM t")))["C"] == "42P01"  # the table went too


def test_commit_among_several_statements_keeps_what_was_before(client: Wire) -> None:
    replies = client(query("CREATE TABLE t(a INT); COMMIT; INSERT INTO t VALUES (1); FAIL x"))
    assert wire.types(replies) == "CNCCEZ"
    assert replies[1].fields["C"] == "25P01"
    assert client(query("SELECT count(*) FROM t"))[1].values == [b"0"]


def test_notice_comes_before_the_tag(client: Wire) -> None:
    replies = client(query("NOTICE hello"))
    assert wire.types(replies) == "NCZ"
    assert replies[0].fields == {
        "S": "NOTICE",
        "V": "NOTICE",
        "C": "00000",
        "M": "hello",
        "H": "A hint.",
    }


def test_set_reports_the_parameter(client: Wire) -> None:
    replies = client(query("SET timezone = 'Europe/Paris'"))
    assert wire.types(replies) == "CSZ"
    assert replies[1].body == b"TimeZone\0Europe/Paris\0"
    assert wire.types(client(query("SET timezone = 'Europe/Paris'"))) == "CZ"
    rows = client(query("SELECT TIMESTAMPTZ '2024-07-01 00:00:00+00'"))
    assert rows[1].values == [b"2024-07-01 02:00:00+02"]


def test_greeting_reports_all_thirteen_parameters(database: FakeDatabase) -> None:
    client = Wire(database)
    fresh = Conversation(client.session, client.protocol, client)
    client.sent = b""
    fresh.greet(b"")
    assert len([r for r in wire.split(client.sent) if r.type == "S"]) == 13


def test_function_call_is_refused_with_one_error(client: Wire) -> None:
    replies = client(wire.message("F", b"\0\0\0\x01"))
    assert wire.types(replies) == "EZ"
    assert error_of(replies)["C"] == "0A000"


# --- the extended protocol ------------------------------------------------------------------------
def test_extended_round_trip(client: Wire) -> None:
    replies = client(
        parse("SELECT $1::INT + 1 AS x"), bind([b"41"]), describe("P"), execute(), SYNC
    )
    assert wire.types(replies) == "12TDCZ"
    assert replies[3].values == [b"42"]


def test_describe_statement_gives_parameters_then_columns_in_text_format(client: Wire) -> None:
    replies = client(parse("SELECT $1::INT AS x, $2::TEXT", "s"), describe("S", "s"), SYNC)
    assert wire.types(replies) == "1tTZ"
    assert struct.unpack("!hII", replies[1].body) == (2, 23, 25)
    assert [c[6] for c in replies[2].columns] == [0, 0]
    replies = client(parse("CREATE TABLE t(a INT)"), describe("S"), SYNC)
    assert wire.types(replies) == "1tnZ"


def test_describe_portal_has_the_formats_of_its_bind(client: Wire) -> None:
    head = parse("SELECT 1 AS a, 2 AS b")
    for codes, shown in (((), [0, 0]), ((1,), [1, 1]), ((0, 1), [0, 1])):
        replies = client(head, bind(results=codes), describe("P"), execute(), SYNC)
        assert [c[6] for c in replies[2].columns] == shown
        assert replies[3].values == [
            struct.pack("!i", v) if f else str(v).encode()
            for v, f in zip((1, 2), shown, strict=True)
        ]


def test_declared_parameter_type_is_kept(client: Wire) -> None:
    replies = client(parse("SELECT $1 AS x", oids=(21,)), describe("S"), SYNC)
    assert struct.unpack("!hI", replies[1].body) == (1, 21)
    value = struct.pack("!h", -7)
    replies = client(bind([value], formats=(1,)), execute(), SYNC)
    assert replies[1].values == [b"-7"]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (bind([b"1", b"2"]), "08P01"),
        (bind([b"1"], formats=(0, 0)), "08P01"),
        (bind([b"1"], formats=(7,)), "22023"),
        (bind([b"1"], results=(0, 0, 0)), "08P01"),
        (bind([b"\x01"], formats=(1,)), "22P03"),
        (bind([b"\xff"]), "22021"),
        (bind([b"1"], statement="nope"), "26000"),
        (execute("nope"), "34000"),
        (describe("S", "nope"), "26000"),
        (describe("P", "nope"), "34000"),
        (wire.message("D", b"Qx\0"), "08P01"),
        (wire.message("B", b"\0"), "08P01"),
        (parse("SELECT 1; SELECT 2"), "42601"),
        (parse("SELECT 'x"), "42601"),
    ],
)
def test_extended_error_is_answered_once_and_skips_to_sync(
    client: Wire, data: bytes, code: str
) -> None:
    start = parse("SELECT $1::INT AS x")
    replies = client(start, data, execute(), bind([b"1"]), FLUSH, query("SELECT 1"), SYNC)
    assert wire.types(replies) == "1EZ"
    assert error_of(replies)["C"] == code
    assert wire.types(client(parse("SELECT 1"), bind(), execute(), SYNC)) == "12DCZ"


def test_error_is_sent_before_sync_comes(client: Wire) -> None:
    assert wire.types(client(parse("SELECT FROM WHERE"))) == "E"
    assert client(parse("SELECT 1")) == []
    assert wire.types(client(SYNC)) == "Z"


def test_replies_wait_for_flush_or_sync(client: Wire) -> None:
    assert client(parse("SELECT 1")) == []
    assert wire.types(client(describe("S"), FLUSH)) == "1tT"
    assert client(bind(), execute()) == []
    assert wire.types(client(SYNC)) == "2DCZ"


def test_several_syncs_in_one_segment(client: Wire) -> None:
    one = parse("SELECT 1") + bind() + execute() + SYNC
    bad = parse("SELECT foo") + bind() + execute() + SYNC
    assert wire.types(client(one, bad, one, SYNC)) == "12DCZEZ12DCZZ"


def test_named_statement_may_not_be_replaced_unnamed_may(client: Wire) -> None:
    client(parse("SELECT 1", "s"), parse("SELECT 1"), SYNC)
    assert wire.types(client(parse("SELECT 2"), bind(), execute(), SYNC)) == "12DCZ"
    assert error_of(client(parse("SELECT 2", "s"), SYNC))["C"] == "42P05"
    client(wire.close("S", "s"), wire.close("S", "never"), SYNC)
    assert wire.types(client(parse("SELECT 2", "s"), SYNC)) == "1Z"


def test_simple_query_forgets_the_unnamed_statement(client: Wire) -> None:
    client(parse("SELECT 1"), SYNC)
    client(query("SELECT 2"))
    assert error_of(client(bind(), SYNC))["C"] == "26000"


def test_deallocate_by_sql_drops_a_protocol_statement(client: Wire) -> None:
    client(parse("SELECT 1", "_pg3_0"), parse("SELECT 1", "other"), SYNC)
    assert client(query('DEALLOCATE "_pg3_0"'))[0].word == "DEALLOCATE"
    assert error_of(client(bind(statement="_pg3_0"), SYNC))["C"] == "26000"
    assert wire.types(client(query("DEALLOCATE ALL"))) == "CZ"
    assert error_of(client(bind(statement="other"), SYNC))["C"] == "26000"


def test_row_limit_suspends_the_portal_until_its_end(client: Wire) -> None:
    client(query("BEGIN"))
    replies = client(
        parse("SERIES 2500", "s"), bind(portal="c", statement="s"), execute("c", 1500), SYNC
    )
    assert wire.types(replies) == "12" + "D" * 1500 + "sZ"
    replies = client(query("SELECT 1"), execute("c", 1000), SYNC)  # something else in between
    assert wire.types(replies) == "TDCZ" + "D" * 1000 + "sZ"
    assert replies[4].values == [b"1500"]
    replies = client(execute("c", 10), SYNC)
    assert wire.types(replies) == "CZ"
    assert replies[0].word == "SELECT 0"
    assert wire.types(client(execute("c", 10), SYNC)) == "CZ"
    assert error_of(client(bind(portal="c", statement="s"), SYNC))["C"] == "42P03"
    client(query("ROLLBACK"))
    assert error_of(client(execute("c"), SYNC))["C"] == "34000"


def test_portal_ends_with_sync_outside_of_a_transaction(client: Wire) -> None:
    client(parse("SERIES 100"), bind(portal="c"), execute("c", 5), SYNC)
    assert error_of(client(execute("c", 5), SYNC))["C"] == "34000"


def test_portal_may_be_closed(client: Wire) -> None:
    client(query("BEGIN"))
    client(parse("SERIES 100"), bind(portal="c"), execute("c", 5), FLUSH)
    assert wire.types(client(wire.close("P", "c"), SYNC)) == "3Z"
    assert error_of(client(execute("c", 5), SYNC))["C"] == "34000"


def test_statement_without_rows_runs_once_per_portal(client: Wire) -> None:
    client(query("BEGIN"))
    replies = client(parse("CREATE TABLE t(a INT)"), bind(), execute(), execute(), SYNC)
    assert wire.types(replies) == "12CEZ"
    assert error_of(replies)["C"] == "55000"


def test_empty_statement_in_the_extended_protocol(client: Wire) -> None:
    replies = client(parse(""), bind(), describe("P"), execute(), SYNC)
    assert wire.types(replies) == "12nIZ"


def test_pipeline_before_one_sync_is_one_transaction(client: Wire) -> None:
    client(query("CREATE TABLE t(a INT)"))
    insert = parse("INSERT INTO t VALUES ($1::INT)")
    good, bad = bind([b"1"]) + execute(), parse("FAIL x") + bind() + execute()
    replies = client(insert, good, good, bad, good, SYNC)
    assert wire.types(replies) == "12C2C12EZ"
    assert replies[-1].body == b"I"
    assert client(query("SELECT count(*) FROM t"))[1].values == [b"0"]
    replies = client(insert, good, good, SYNC)
    assert client(query("SELECT count(*) FROM t"))[1].values == [b"2"]
    assert client.session.log[-2] == "commit implicit"


def test_single_statement_before_sync_needs_no_transaction(client: Wire) -> None:
    client(parse("SELECT 1"), bind(), execute(), SYNC)
    client(parse("SELECT 1"), bind(), execute(), FLUSH, SYNC)
    assert client.session.log == ["SELECT 1", "SELECT 1"]


def test_begin_by_the_extended_protocol_in_front_of_the_same_sync(client: Wire) -> None:
    unit = [parse(sql) + bind() + execute() for sql in ("BEGIN", "SELECT 1")]
    replies = client(*unit, SYNC)
    assert replies[-1].body == b"T"
    assert client.session.log == ["BEGIN", "SELECT 1"]


def test_error_in_the_middle_of_rows_fails_the_transaction(client: Wire) -> None:
    client(query("BEGIN"))
    replies = client(query("HALFWAY x"))
    assert wire.types(replies) == "TDDEZ"
    assert replies[-1].body == b"E"
    client(query("ROLLBACK"))
    replies = client(parse("HALFWAY x"), bind(), execute(), execute(), SYNC)
    assert wire.types(replies) == "12DDEZ"
    assert replies[-1].body == b"I"


def test_type_without_binary_form_is_an_error_not_text(client: Wire) -> None:
    client(query("BEGIN"))
    replies = client(parse("ACL x"), bind(results=(1,)), execute(), SYNC)
    assert wire.types(replies) == "12EZ"
    assert error_of(replies)["C"] == "0A000"
    assert replies[-1].body == b"E"
    client(query("ROLLBACK"))
    replies = client(parse("ACL x"), bind(), describe("P"), execute(), SYNC)
    assert [c[3:5] for c in replies[2].columns] == [(1033, 12)]
    assert replies[3].values == [b"x"]


# --- COPY -----------------------------------------------------------------------------------------
def test_copy_in_collects_data_until_done(client: Wire) -> None:
    client(query("CREATE TABLE t(a INT, b VARCHAR)"))
    assert wire.types(client(query("COPY t FROM STDIN"))) == "G"
    assert client(wire.message("d", b"1,a\n2,"), SYNC, FLUSH, wire.message("d", b"b\n")) == []
    replies = client(wire.message("c"))
    assert (wire.types(replies), replies[0].word) == ("CZ", "COPY 2")
    assert client(query("SELECT count(*) FROM t"))[1].values == [b"2"]


def test_copy_in_by_the_extended_protocol(client: Wire) -> None:
    client(query("CREATE TABLE t(a INT, b VARCHAR)"))
    data = wire.message("d", b"1,a\n") + wire.message("c")
    replies = client(parse("COPY t FROM STDIN"), bind(), execute(), data, SYNC)
    assert wire.types(replies) == "12GCZ"


@pytest.mark.parametrize("extended", [False, True])
def test_bad_copy_data_ends_the_copy_with_one_error(client: Wire, extended: bool) -> None:
    client(query("CREATE TABLE t(a INT, b VARCHAR)"))
    start = (
        parse("COPY t FROM STDIN") + bind() + execute() if extended else query("COPY t FROM STDIN")
    )
    data = wire.message("d", b"bad") + wire.message("d", b"1,a\n") + wire.message("c")
    replies = client(start, data, *([SYNC] if extended else []))
    assert wire.types(replies) == ("12GEZ" if extended else "GEZ")
    assert error_of(replies)["C"] == "22P04"
    assert wire.types(client(query("SELECT count(*) FROM t"))) == "TDCZ"


def test_copy_fail_and_foreign_messages_end_the_copy(client: Wire) -> None:
    client(query("CREATE TABLE t(a INT, b VARCHAR)"))
    replies = client(query("COPY t FROM STDIN"), wire.message("f", wire.text("stop it")))
    assert error_of(replies)["C"] == "57014"
    assert error_of(replies)["M"] == "COPY from stdin failed: stop it"
    replies = client(query("COPY t FROM STDIN"), query("SELECT 1"))
    assert error_of(replies)["C"] == "08P01"
    assert wire.types(client(query("SELECT 1"))) == "TDCZ"


def test_statements_behind_a_copy_in_go_on(client: Wire) -> None:
    client(query("CREATE TABLE t(a INT, b VARCHAR)"))
    replies = client(
        query("COPY t FROM STDIN; SELECT count(*) FROM t"),
        wire.message("d", b"1,a\n"),
        wire.message("c"),
    )
    assert wire.types(replies) == "GCTDCZ"
    assert replies[3].values == [b"1"]


def test_copy_out_text_and_csv(client: Wire) -> None:
    sql = "SELECT i, CASE WHEN i > 0 THEN 'a,\"b' || chr(9) END AS s FROM range(2) r(i)"
    replies = client(query(f"COPY ({sql}) TO STDOUT"))
    assert wire.types(replies) == "HddcCZ"
    assert [r.body for r in replies[1:3]] == [b"0\t\\N\n", b'1\ta,"b\\t\n']
    assert replies[4].word == "COPY 2"
    replies = client(query(f"COPY ({sql}) TO STDOUT csv"))
    assert [r.body for r in replies[1:4]] == [b"i,s\n", b"0,\n", b'1,"a,""b\t"\n']


def test_copy_out_binary_sends_the_header_with_the_first_tuple(client: Wire) -> None:
    replies = client(query("COPY (SELECT 7::INT) TO STDOUT binary"))
    assert wire.types(replies) == "HddcCZ"
    head = b"PGCOPY\n\xff\r\n\0" + bytes(8)
    assert replies[1].body == head + struct.pack("!hii", 1, 4, 7)
    assert replies[2].body == b"\xff\xff"
    replies = client(query("COPY (SELECT 7::INT LIMIT 0) TO STDOUT binary"))
    assert [r.body for r in replies if r.type == "d"] == [head + b"\xff\xff"]


# --- streams and the end --------------------------------------------------------------------------
def test_terminate_closes(client: Wire) -> None:
    client(query("BEGIN"), wire.TERMINATE)
    assert client.conversation.closed
    client.conversation.close()
    assert client.session.closed
    assert client.session.status == "I"


@pytest.mark.parametrize("data", [b"?\0\0\0\4", b"Q\0\0\0\3", b"S\x7f\0\0\0"])
def test_bytes_out_of_step_are_fatal(client: Wire, data: bytes) -> None:
    client.protocol.receive(query("SELECT 1") + data + query("SELECT 2"))
    event = client.protocol.next_event()
    assert event is not None
    with pytest.raises(FatalProtocolError):
        client.protocol.next_event()


def test_frames_may_arrive_byte_by_byte(client: Wire) -> None:
    replies = []
    for byte in query("SELECT 1") + parse("SELECT 2") + SYNC:
        replies += client(bytes([byte]))
    assert wire.types(replies) == "TDCZ1Z"


def test_late_cancel_hits_nothing(client: Wire) -> None:
    assert client.conversation.cancel() is False
    assert wire.types(client(query("SELECT 1"))) == "TDCZ"
    client(query("CREATE TABLE t(a INT, b VARCHAR)"), query("COPY t FROM STDIN"))
    assert client.conversation.cancel() is True
    client.sent = b""
    client.conversation.after_cancel()
    assert error_of(wire.split(client.sent))["C"] == "57014"
