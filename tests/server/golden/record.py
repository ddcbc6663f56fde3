"""Writes `wire_values.json` from a real PostgreSQL: `python record.py "host=… dbname=…"`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import psycopg
from wire_cases import CASES, COPY_OPTIONS, copy_query


def main() -> None:
    out = {}
    with psycopg.connect(sys.argv[1], autocommit=True) as connection:
        connection.execute("SET timezone = 'Europe/Paris'")
        for name, _, pg_type, values in CASES:
            recorded = []
            for _, expression in values:
                sql = f"SELECT ({expression})::{pg_type}".encode()
                forms = {}
                for key, code in (("text", 0), ("binary", 1)):
                    result = connection.pgconn.exec_params(sql, [], result_format=code)
                    assert result.status == psycopg.pq.ExecStatus.TUPLES_OK, (
                        sql,
                        result.error_message,
                    )
                    value = result.get_value(0, 0)
                    forms[key] = value.hex() if code else value.decode()
                recorded.append(forms)
            out[name] = {"oid": result.ftype(0), "typmod": result.fmod(0), "values": recorded}
        copies = {}
        for name, (options, _) in COPY_OPTIONS.items():
            clause = f" ({options})" if options else ""
            with connection.cursor().copy(f"COPY ({copy_query()}) TO STDOUT{clause}") as copy:
                copies[name] = [bytes(piece).hex() for piece in copy]
    out["copy"] = copies
    path = Path(__file__).with_name("wire_values.json")
    path.write_text(json.dumps(out, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
