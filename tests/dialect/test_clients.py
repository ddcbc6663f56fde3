"""Every statement that real clients were recorded to send is understood.

The recordings lie beside the repository; without them the test is skipped.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streamsql.core.errors import StreamSqlError
from streamsql.dialect import parse

RECORDINGS = Path(__file__).parents[3] / "shared" / "pgclients"

# recorded texts that are no statement of ours: what they get instead
REFUSED = {
    "COPY (show server_version) TO STDOUT (FORMAT binary)": "0A000",  # PostgreSQL refuses it too
    "ALTER USER app PASSWORD 'SCRAM-SHA-256$<verifier>'": "0A000",
    "selec 1": "42601",
    "\nCREATE TABLE sa_t (\n\ta SERIAL NOT NULL, \n\tb VARCHAR(10), \n\tPRIMARY KEY (a)\n)\n\n": "42704",
}


def recorded() -> list[str]:
    """The distinct SQL texts of all recordings."""
    texts: dict[str, None] = {}
    for path in sorted(RECORDINGS.glob("*.json")):
        entries = json.loads(path.read_text())
        if isinstance(entries, list):
            texts.update((e["sql"], None) for e in entries if isinstance(e, dict) and "sql" in e)
    return list(texts)


@pytest.mark.skipif(not RECORDINGS.is_dir(), reason="no recordings beside the repository")
def test_every_recorded_statement_parses_or_is_refused_as_listed() -> None:
    texts = recorded()
    assert len(texts) >= 500
    surprises = {}
    for text in texts:
        try:
            parse(text)
            outcome = None
        except StreamSqlError as error:
            outcome = error.sqlstate
        if outcome != REFUSED.get(text):
            surprises[text] = outcome
    assert surprises == {}
