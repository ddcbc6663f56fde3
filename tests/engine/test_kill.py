"""`kill -9` at random moments under writes: no acknowledged write is lost, views agree with tables."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys

import streamsql

KILLS = 10

# A process that has imported everything forks the writers: the tenth start costs no import.
NURSERY = """
import os, sys, threading
import streamsql
from streamsql.engine.database import Database
from streamsql.functions import evaluator
import streamsql.runtime.compile, streamsql.engine.datadir, streamsql.plan.properties

def write(path, start):
    db = streamsql.connect(path)
    db.execute("CREATE TABLE IF NOT EXISTS t (id INT PRIMARY KEY, g INT)")
    db.execute(
        "CREATE MATERIALIZED VIEW IF NOT EXISTS m AS SELECT g, count(*) AS n FROM t GROUP BY g")
    lock = threading.Lock()
    def say(text):
        with lock:
            print(text, flush=True)
    def work(k):
        session = db.session()
        for i in range(start + 1 + k, start + 100000, 3):
            session.execute("INSERT INTO t VALUES ($1, $2)", [i, i % 7])
            say(f"+{i}")
            if i % 10 == 0:
                say(f"?{i}")
                session.execute("DELETE FROM t WHERE id = $1", [i])
                say(f"-{i}")
            if k == 0 and i % 16 == 0:
                db.engine.call(db.engine.durability.checkpoint)
    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    [t.start() for t in threads]
    [t.join() for t in threads]

for line in sys.stdin:
    path, start = line.split("|")
    child = os.fork()
    if child == 0:
        write(path, int(start))
        os._exit(0)
    print(f"pid {child}", flush=True)
    os.waitpid(child, 0)
    print("dead", flush=True)
"""


def test_kill_at_random_moments_loses_no_acknowledged_write(tmp_path):
    draw = random.Random(7)
    path = str(tmp_path / "data")
    inserted: set[int] = set()
    leaving: set[int] = set()
    deleted: set[int] = set()
    kinds = {"+": inserted, "?": leaving, "-": deleted}
    nursery = subprocess.Popen(
        [sys.executable, "-c", NURSERY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert nursery.stdin is not None and nursery.stdout is not None
    for life in range(KILLS):
        print(f"{path}|{life * 100_000}", file=nursery.stdin, flush=True)
        pid = int(nursery.stdout.readline().split()[1])
        patience = draw.randint(1, 60)
        while (line := nursery.stdout.readline().strip()) != "dead":
            assert line, "the writer did not start"
            kinds[line[0]].add(int(line[1:]))
            patience -= 1
            if patience == 0:
                os.kill(pid, signal.SIGKILL)
        assert patience <= 0, "the writer ended by itself"
    nursery.stdin.close()
    nursery.wait()
    with streamsql.connect(path) as db:
        found = {i for (i,) in db.execute("SELECT id FROM t").fetchall()}
        assert inserted - leaving <= found
        assert not found & deleted
        counts = dict(db.execute("SELECT * FROM m").fetchall())
        expected: dict[int, int] = {}
        for i in found:
            expected[i % 7] = expected.get(i % 7, 0) + 1
        assert counts == expected
    assert len(inserted) > KILLS
