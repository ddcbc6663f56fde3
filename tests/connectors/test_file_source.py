"""The file source: folders that are followed, seeking, partial lines, replay by event time."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamsql.connectors.base import SourceReader
from streamsql.connectors.registry import open_source
from streamsql.core.errors import FeatureNotSupported, InvalidParameterValue
from streamsql.core.schema import Schema
from streamsql.core.types import BIGINT, INTEGER, TEXT, TIMESTAMP, struct_of
from streamsql.dialect.statements import FormatDef

AB = Schema.of(("a", INTEGER), ("b", TEXT))
CSV = FormatDef(encode="csv")


class Wall:
    """A clock for readers; each look moves it a little, so that folders are scanned again."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 0.2
        return self.now


def reader(path: Path | str, schema: Schema = AB, format_: FormatDef | None = CSV, **options: str):
    from streamsql.connectors.file import FileSource

    clock = options.pop("clock", None) or Wall()
    given = {"connector": "file", "path": str(path), **options}
    return FileSource(given, schema, format_, clock=clock)


def drain(source: SourceReader, max_rows: int = 1000) -> list[tuple]:
    out: list[tuple] = []
    while batches := source.poll(max_rows):
        assert sum(b.batch.num_rows for b in batches) <= max_rows
        for batch in batches:
            assert batch.batch.schema == source._schema.arrow
            out += [tuple(r.values()) for r in batch.batch.to_pylist()]
    return out


def test_file_without_final_line_feed_is_read_whole(tmp_path):
    (tmp_path / "x.csv").write_bytes(b"1,a\n2,b")
    source = reader(tmp_path / "x.csv")
    assert drain(source) == [(1, "a"), (2, "b")]
    assert source.finished
    assert source.positions() == {str(tmp_path / "x.csv"): {str(tmp_path / "x.csv"): 7}}


def test_followed_file_holds_a_partial_line_back_until_it_ends(tmp_path):
    path = tmp_path / "x.csv"
    path.write_bytes(b"1,a\n2,")
    source = reader(path, follow="true")
    assert drain(source) == [(1, "a")]
    with path.open("ab") as f:
        f.write(b"b\n3")
    assert drain(source) == [(2, "b")]
    with path.open("ab") as f:
        f.write(b",c\n")
    assert drain(source) == [(3, "c")]
    assert not source.finished


def test_folder_is_followed_for_new_and_growing_files(tmp_path):
    (tmp_path / "1.csv").write_bytes(b"1,a\n")
    source = reader(tmp_path)
    assert drain(source) == [(1, "a")]
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "2.csv").write_bytes(b"2,b\n")
    (tmp_path / ".hidden.csv").write_bytes(b"9,x\n")
    (tmp_path / "3.csv.tmp").write_bytes(b"9,x\n")
    assert drain(source) == [(2, "b")]
    with (tmp_path / "1.csv").open("ab") as f:
        f.write(b"3,c\n")
    assert drain(source) == [(3, "c")]


def test_truncated_file_is_read_anew(tmp_path):
    path = tmp_path / "x.csv"
    path.write_bytes(b"1,aaaaaaaa\n")
    source = reader(tmp_path)
    assert drain(source) == [(1, "aaaaaaaa")]
    path.write_bytes(b"2,b\n")
    assert drain(source) == [(2, "b")]


def test_glob_reads_matching_files_in_order(tmp_path):
    for i in (2, 1, 3):
        (tmp_path / f"{i}.csv").write_bytes(b"%d,x\n" % i)
    (tmp_path / "4.txt").write_bytes(b"4,x\n")
    assert drain(reader(tmp_path / "*.csv")) == [(1, "x"), (2, "x"), (3, "x")]


def test_path_that_names_nothing_is_refused(tmp_path):
    with pytest.raises(InvalidParameterValue, match="does not exist"):
        reader(tmp_path / "no.csv")


def test_format_follows_from_the_extension(tmp_path):
    (tmp_path / "x.jsonl").write_bytes(b'{"a":1,"b":"q"}\n')
    assert drain(reader(tmp_path / "x.jsonl", format_=None)) == [(1, "q")]
    with gzip.open(tmp_path / "y.csv.gz", "wb") as f:
        f.write(b"5,z\n6,y")
    source = reader(tmp_path / "y.csv.gz", format_=None)
    assert drain(source) == [(5, "z"), (6, "y")]
    assert source.finished
    (tmp_path / "x.bin").write_bytes(b"1")
    with pytest.raises(InvalidParameterValue, match="format"):
        reader(tmp_path / "x.bin", format_=None)


def test_options_and_connectors_that_do_not_exist_are_refused(tmp_path):
    (tmp_path / "x.csv").write_bytes(b"1,a\n")
    with pytest.raises(InvalidParameterValue, match="colour"):
        reader(tmp_path / "x.csv", colour="red")
    with pytest.raises(FeatureNotSupported, match="carrier"):
        open_source({"connector": "carrier pigeon"}, AB, CSV)


def test_header_is_read_once_per_file_also_after_a_seek(tmp_path):
    (tmp_path / "1.csv").write_bytes(b"b,a\nx,1\ny,2\n")
    (tmp_path / "2.csv").write_bytes(b"a,b\n3,z\n")
    first = reader(tmp_path / "*.csv", header="true")
    assert [b.batch.to_pydict() for b in first.poll(1)] == [{"c0": [1], "c1": ["x"]}]
    second = reader(tmp_path / "*.csv", header="true")
    second.seek(first.positions())
    assert drain(second) == [(2, "y"), (3, "z")]


@pytest.mark.parametrize("kind", ["csv", "json", "parquet"])
def test_seek_to_any_position_goes_on_with_the_next_row(tmp_path, kind):
    rng = random.Random(7)
    expected = [(i, f"v{i}\n{i}" if kind != "parquet" else f"v{i}") for i in range(200)]
    for part in range(4):
        mine = expected[part * 50 : part * 50 + 50]
        path = tmp_path / f"{part}.{kind}"
        if kind == "csv":
            path.write_text("".join(f'{a},"{b}"\n' + "bad,,,\n" * (a % 3 == 0) for a, b in mine))
        elif kind == "json":
            path.write_text("".join(f'{{"a":{a},"b":"v{a}\\n{a}"}}\n' for a, _ in mine))
        else:
            table = pa.table({"a": [a for a, _ in mine], "b": [b for _, b in mine]})
            pq.write_table(table, path, row_group_size=13)
    got: list[tuple] = []
    bad: list[tuple] = []
    positions: dict = {}
    for _ in range(1000):
        source = reader(tmp_path / f"*.{kind}", format_=FormatDef(encode=kind))
        source.seek(positions)
        batches = source.poll(rng.randint(1, 17))
        if not batches:
            break
        for batch in batches:
            got += [tuple(r.values()) for r in batch.batch.to_pylist()]
            bad += [(b.partition, b.offset) for b in batch.bad_rows]
            positions = {batch.partition: batch.offset}
        assert positions == source.positions()
        source.close()
    assert got == expected
    assert len(bad) == len(set(bad)) == (67 if kind == "csv" else 0)


def test_bad_rows_carry_their_file_and_byte_offset(tmp_path):
    path = tmp_path / "x.csv"
    path.write_bytes(b"1,a\nx,b\n2,c\ny,d")
    bad = [b for batch in reader(path).poll(10) for b in batch.bad_rows]
    assert [(b.partition, b.offset, b.payload) for b in bad] == [
        (str(path), 4, "x,b"), (str(path), 12, "y,d"),
    ]  # fmt: skip


def test_parquet_value_that_does_not_fit_makes_its_row_bad(tmp_path):
    pq.write_table(pa.table({"a": [1, 2**40, 3], "b": ["x", "y", "z"]}), tmp_path / "x.parquet")
    batches = reader(tmp_path / "x.parquet", format_=FormatDef(encode="parquet")).poll(10)
    assert [b.batch.to_pydict() for b in batches] == [{"c0": [1, 3], "c1": ["x", "z"]}]
    assert [(b.offset, str(2**40) in b.reason) for b in batches[0].bad_rows] == [(1, True)]


# --- replay ---------------------------------------------------------------------------------------
class Still:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


TIMED = Schema.of(("t", TIMESTAMP), ("n", INTEGER))


def timed_file(tmp_path: Path) -> Path:
    path = tmp_path / "t.csv"
    seconds = [0, 10, 5, 20, 20, 3600]
    lines = [
        f"2024-01-01 {s // 3600:02}:{s % 3600 // 60:02}:{s % 60:02},{i}\n"
        for i, s in enumerate(seconds)
    ]
    path.write_text("".join(lines))
    return path


def test_replay_lets_event_time_advance_at_its_speed(tmp_path):
    clock = Still()
    source = reader(timed_file(tmp_path), TIMED, replay="event_time", speed="10", clock=clock)
    assert [n for _, n in drain(source)] == [0]
    clock.now += 0.99
    assert drain(source) == []
    clock.now += 0.01
    assert [n for _, n in drain(source)] == [1, 2]
    positions = source.positions()
    clock.now += 1.0
    assert [n for _, n in drain(source)] == [3, 4]
    assert not source.finished
    clock.now += 1e4
    assert [n for _, n in drain(source)] == [5]
    assert source.poll(10) == []
    assert source.finished

    again = reader(timed_file(tmp_path), TIMED, replay="event_time", speed="10", clock=clock)
    again.seek(positions)
    assert [n for _, n in drain(again)] == [3, 4]


def test_replay_that_is_not_paced_reads_on_without_waiting(tmp_path):
    path = timed_file(tmp_path)
    options = {"connector": "file", "path": str(path), "replay": "event_time", "speed": "1"}
    source = open_source(options, TIMED, CSV, paced=False)
    assert [n for _, n in drain(source)] == [0, 1, 2, 3, 4, 5]
    assert source.finished


def test_replay_column_may_be_milliseconds_inside_a_struct(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text("".join(f'{{"p":{{"ms":{s * 1000}}}}}\n' for s in (0, 1, 2, 3)))
    schema = Schema.of(("p", struct_of((("ms", BIGINT),))))
    clock = Still()
    source = reader(path, schema, None, replay="event_time", replay_column="p.ms", clock=clock)
    assert len(drain(source)) == 1
    clock.now += 2
    assert len(drain(source)) == 2


def test_replay_without_a_time_column_is_refused(tmp_path):
    (tmp_path / "x.csv").write_bytes(b"1,a\n")
    with pytest.raises(InvalidParameterValue, match="replay_column"):
        open_source(
            {"connector": "file", "path": str(tmp_path / "x.csv"), "replay": "event_time",
             "replay_column": "a"}, AB, CSV,
        )  # fmt: skip
