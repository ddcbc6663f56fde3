"""TPC-H: the standard's tables and its 22 queries, over rows of a small generator of our own.

The vocabulary is narrower than the standard's, so that every query finds something at this size.
"""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from ...oracle.batch import Shape
from ..harness import Stage, Table

NATIONS = (
    ("ALGERIA", 0), ("BRAZIL", 1), ("CANADA", 1), ("FRANCE", 3), ("GERMANY", 3), ("INDIA", 2),
    ("CHINA", 2), ("SAUDI ARABIA", 4),
)  # fmt: skip
REGIONS = ("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST")
SEGMENTS = ("BUILDING", "AUTOMOBILE", "MACHINERY")
TYPES = (
    "ECONOMY ANODIZED STEEL", "LARGE BRUSHED BRASS", "MEDIUM POLISHED TIN", "PROMO BURNISHED BRASS",
)  # fmt: skip
BRANDS = ("Brand#12", "Brand#23", "Brand#34", "Brand#45")
CONTAINERS = ("SM CASE", "SM BOX", "MED BAG", "MED BOX", "LG CASE", "LG BOX")
MODES = ("MAIL", "SHIP", "AIR", "AIR REG", "TRUCK")
PRIORITIES = ("1-URGENT", "2-HIGH", "3-MEDIUM", "5-LOW")
INSTRUCTIONS = ("DELIVER IN PERSON", "COLLECT COD", "NONE")
COLORS = ("forest", "green", "ivory", "lace", "navy")
CODES = ("13", "31", "23", "29", "30", "18", "17", "40")
EPOCH = datetime.date(1970, 1, 1)
FIRST_DAY = (datetime.date(1992, 1, 1) - EPOCH).days
SUPPLIERS, PARTS, CUSTOMERS, ORDERS = 20, 40, 50, 260


def pick(random: np.random.Generator, words: tuple[str, ...], n: int) -> list[str]:
    return [words[i] for i in random.integers(0, len(words), n)]


def money(random: np.random.Generator, low: int, high: int, n: int) -> pa.Array:
    cents = random.integers(low * 100, high * 100, n)
    return pa.array([Decimal(int(c)) / 100 for c in cents], pa.decimal128(15, 2))


def days(values: np.ndarray[Any, Any]) -> pa.Array:
    return pa.array(values.astype(np.int32), pa.int32()).cast(pa.date32())


def ints(values: Any) -> pa.Array:
    return pa.array(np.asarray(values).astype(np.int32))


def region(random: np.random.Generator, scale: int) -> pa.Table:
    return pa.table({"r_regionkey": ints(np.arange(5)), "r_name": list(REGIONS)})


def nation(random: np.random.Generator, scale: int) -> pa.Table:
    return pa.table({
        "n_nationkey": ints(np.arange(len(NATIONS))), "n_name": [n for n, _ in NATIONS],
        "n_regionkey": ints([r for _, r in NATIONS]),
    })  # fmt: skip


def supplier(random: np.random.Generator, scale: int) -> pa.Table:
    n = SUPPLIERS * scale
    complaints = random.random(n) < 0.15
    return pa.table({
        "s_suppkey": ints(np.arange(1, n + 1)),
        "s_name": [f"Supplier#{i:09d}" for i in range(1, n + 1)],
        "s_address": [f"street {i}" for i in random.integers(0, 90, n)],
        "s_nationkey": ints(random.integers(0, len(NATIONS), n)),
        "s_phone": [f"{c}-555-{i:04d}" for i, c in enumerate(pick(random, CODES, n))],
        "s_acctbal": money(random, -900, 9900, n),
        "s_comment": ["Customer slow Complaints" if c else "quick" for c in complaints],
    })  # fmt: skip


def part(random: np.random.Generator, scale: int) -> pa.Table:
    n = PARTS * scale
    names = [
        f"{a} {b}" for a, b in zip(pick(random, COLORS, n), pick(random, COLORS, n), strict=True)
    ]
    return pa.table({
        "p_partkey": ints(np.arange(1, n + 1)), "p_name": names,
        "p_mfgr": pick(random, ("Manufacturer#1", "Manufacturer#2"), n),
        "p_brand": pick(random, BRANDS, n), "p_type": pick(random, TYPES, n),
        "p_size": ints(random.choice([3, 9, 14, 15, 19, 23, 36, 45, 49], n)),
        "p_container": pick(random, CONTAINERS, n), "p_retailprice": money(random, 900, 2000, n),
    })  # fmt: skip


def partsupp(random: np.random.Generator, scale: int) -> pa.Table:
    parts = np.repeat(np.arange(1, PARTS * scale + 1), 3)
    n = parts.size
    suppliers = (parts * 7 + np.tile(np.arange(3), n // 3) * 6) % (SUPPLIERS * scale) + 1
    return pa.table({
        "ps_partkey": ints(parts), "ps_suppkey": ints(suppliers),
        "ps_availqty": ints(random.integers(1, 999, n)), "ps_supplycost": money(random, 1, 1000, n),
    })  # fmt: skip


def customer(random: np.random.Generator, scale: int) -> pa.Table:
    n = CUSTOMERS * scale
    return pa.table({
        "c_custkey": ints(np.arange(1, n + 1)),
        "c_name": [f"Customer#{i:09d}" for i in range(1, n + 1)],
        "c_address": [f"road {i}" for i in random.integers(0, 90, n)],
        "c_nationkey": ints(random.integers(0, len(NATIONS), n)),
        "c_phone": [f"{c}-555-{i:04d}" for i, c in enumerate(pick(random, CODES, n))],
        "c_acctbal": money(random, -900, 9900, n), "c_mktsegment": pick(random, SEGMENTS, n),
        "c_comment": [f"note {i}" for i in random.integers(0, 90, n)],
    })  # fmt: skip


def order_days(scale: int) -> np.ndarray[Any, Any]:
    """The day of each order: the same for both tables that need it."""
    return np.random.default_rng(11).integers(FIRST_DAY, FIRST_DAY + 2400, ORDERS * scale)


def orders(random: np.random.Generator, scale: int) -> pa.Table:
    n = ORDERS * scale
    # a third of the customers never order, as in the standard
    customers = random.choice(np.flatnonzero(np.arange(CUSTOMERS * scale + 1) % 3), n)
    special = random.random(n) < 0.2
    return pa.table({
        "o_orderkey": ints(np.arange(1, n + 1)), "o_custkey": ints(customers),
        "o_orderstatus": pick(random, ("F", "F", "O", "P"), n),
        "o_totalprice": money(random, 1000, 400000, n), "o_orderdate": days(order_days(scale)),
        "o_orderpriority": pick(random, PRIORITIES, n), "o_clerk": ["clerk"] * n,
        "o_shippriority": ints(np.zeros(n)),
        "o_comment": ["special packages requests" if s else "plain" for s in special],
    })  # fmt: skip


def lineitem(random: np.random.Generator, scale: int) -> pa.Table:
    lines = random.integers(1, 8, ORDERS * scale)
    keys = np.repeat(np.arange(1, ORDERS * scale + 1), lines)
    n = keys.size
    parts = random.integers(1, PARTS * scale + 1, n)
    suppliers = (parts * 7 + random.integers(0, 3, n) * 6) % (SUPPLIERS * scale) + 1
    shipped = order_days(scale)[keys - 1] + random.integers(1, 121, n)
    committed = order_days(scale)[keys - 1] + random.integers(30, 91, n)
    numbers = np.concatenate([np.arange(1, k + 1) for k in lines])
    percent = [Decimal(int(i)) / 100 for i in random.integers(0, 11, n)]
    tax = [Decimal(int(i)) / 100 for i in random.integers(0, 9, n)]
    return pa.table({
        "l_orderkey": ints(keys), "l_partkey": ints(parts), "l_suppkey": ints(suppliers),
        "l_linenumber": ints(numbers),
        "l_quantity": pa.array([Decimal(int(q)) for q in random.integers(1, 51, n)], pa.decimal128(15, 2)),
        "l_extendedprice": money(random, 900, 90000, n),
        "l_discount": pa.array(percent, pa.decimal128(15, 2)),
        "l_tax": pa.array(tax, pa.decimal128(15, 2)),
        "l_returnflag": pick(random, ("R", "A", "N"), n), "l_linestatus": pick(random, ("O", "F"), n),
        "l_shipdate": days(shipped), "l_commitdate": days(committed),
        "l_receiptdate": days(shipped + random.integers(1, 31, n)),
        "l_shipinstruct": pick(random, INSTRUCTIONS, n), "l_shipmode": pick(random, MODES, n),
        "l_comment": ["none"] * n,
    })  # fmt: skip


TABLES = (
    Table("region", "r_regionkey INT PRIMARY KEY, r_name VARCHAR NOT NULL", region, "r_regionkey"),
    Table(
        "nation", "n_nationkey INT PRIMARY KEY, n_name VARCHAR NOT NULL, n_regionkey INT NOT NULL",
        nation, "n_nationkey",
    ),
    Table(
        "supplier",
        "s_suppkey INT PRIMARY KEY, s_name VARCHAR NOT NULL, s_address VARCHAR, s_nationkey INT NOT NULL, "
        "s_phone VARCHAR, s_acctbal NUMERIC(15,2), s_comment VARCHAR",
        supplier, "s_suppkey",
    ),
    Table(
        "part",
        "p_partkey INT PRIMARY KEY, p_name VARCHAR NOT NULL, p_mfgr VARCHAR, p_brand VARCHAR, p_type VARCHAR, "
        "p_size INT, p_container VARCHAR, p_retailprice NUMERIC(15,2)",
        part, "p_partkey", "p_size",
    ),
    Table(
        "partsupp",
        "ps_partkey INT, ps_suppkey INT, ps_availqty INT, ps_supplycost NUMERIC(15,2), "
        "PRIMARY KEY (ps_partkey, ps_suppkey)",
        partsupp, "ps_partkey", "ps_availqty",
    ),
    Table(
        "customer",
        "c_custkey INT PRIMARY KEY, c_name VARCHAR, c_address VARCHAR, c_nationkey INT NOT NULL, c_phone VARCHAR, "
        "c_acctbal NUMERIC(15,2), c_mktsegment VARCHAR, c_comment VARCHAR",
        customer, "c_custkey",
    ),
    Table(
        "orders",
        "o_orderkey INT PRIMARY KEY, o_custkey INT NOT NULL, o_orderstatus VARCHAR, o_totalprice NUMERIC(15,2), "
        "o_orderdate DATE, o_orderpriority VARCHAR, o_clerk VARCHAR, o_shippriority INT, o_comment VARCHAR",
        orders, "o_orderkey", "o_shippriority",
    ),
    Table(
        "lineitem",
        "l_orderkey INT, l_partkey INT NOT NULL, l_suppkey INT NOT NULL, l_linenumber INT, l_quantity NUMERIC(15,2), "
        "l_extendedprice NUMERIC(15,2), l_discount NUMERIC(15,2), l_tax NUMERIC(15,2), l_returnflag VARCHAR, "
        "l_linestatus VARCHAR, l_shipdate DATE, l_commitdate DATE, l_receiptdate DATE, l_shipinstruct VARCHAR, "
        "l_shipmode VARCHAR, l_comment VARCHAR, PRIMARY KEY (l_orderkey, l_linenumber)",
        lineitem, "l_orderkey",
    ),
)  # fmt: skip

QUERIES: dict[str, str] = {
    "q1": """
SELECT l_returnflag, l_linestatus, sum(l_quantity) AS sum_qty, sum(l_extendedprice) AS sum_base_price,
  sum(l_extendedprice * (1 - l_discount)) AS sum_disc_price,
  sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS sum_charge, avg(l_quantity) AS avg_qty,
  avg(l_extendedprice) AS avg_price, avg(l_discount) AS avg_disc, count(*) AS count_order
FROM lineitem WHERE l_shipdate <= date '1998-12-01' - interval '90' day
GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus""",
    "q2": """
SELECT s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment
FROM part, supplier, partsupp, nation, region
WHERE p_partkey = ps_partkey AND s_suppkey = ps_suppkey AND p_size = 15 AND p_type LIKE '%BRASS'
  AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = 'EUROPE'
  AND ps_supplycost = (SELECT min(ps_supplycost) FROM partsupp, supplier, nation, region
    WHERE p_partkey = ps_partkey AND s_suppkey = ps_suppkey AND s_nationkey = n_nationkey
      AND n_regionkey = r_regionkey AND r_name = 'EUROPE')
ORDER BY s_acctbal DESC, n_name, s_name, p_partkey LIMIT 100""",
    "q3": """
SELECT l_orderkey, sum(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate, o_shippriority
FROM customer, orders, lineitem
WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey AND l_orderkey = o_orderkey
  AND o_orderdate < date '1995-03-15' AND l_shipdate > date '1995-03-15'
GROUP BY l_orderkey, o_orderdate, o_shippriority ORDER BY revenue DESC, o_orderdate LIMIT 10""",
    "q4": """
SELECT o_orderpriority, count(*) AS order_count FROM orders
WHERE o_orderdate >= date '1993-07-01' AND o_orderdate < date '1993-07-01' + interval '3' month
  AND EXISTS (SELECT * FROM lineitem WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate)
GROUP BY o_orderpriority ORDER BY o_orderpriority""",
    "q5": """
SELECT n_name, sum(l_extendedprice * (1 - l_discount)) AS revenue
FROM customer, orders, lineitem, supplier, nation, region
WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey
  AND c_nationkey = s_nationkey AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey
  AND r_name = 'ASIA' AND o_orderdate >= date '1994-01-01'
  AND o_orderdate < date '1994-01-01' + interval '1' year
GROUP BY n_name ORDER BY revenue DESC""",
    "q6": """
SELECT sum(l_extendedprice * l_discount) AS revenue FROM lineitem
WHERE l_shipdate >= date '1994-01-01' AND l_shipdate < date '1994-01-01' + interval '1' year
  AND l_discount BETWEEN 0.06 - 0.01 AND 0.06 + 0.01 AND l_quantity < 24""",
    "q7": """
SELECT supp_nation, cust_nation, l_year, sum(volume) AS revenue FROM (
  SELECT n1.n_name AS supp_nation, n2.n_name AS cust_nation, extract(year FROM l_shipdate) AS l_year,
    l_extendedprice * (1 - l_discount) AS volume
  FROM supplier, lineitem, orders, customer, nation n1, nation n2
  WHERE s_suppkey = l_suppkey AND o_orderkey = l_orderkey AND c_custkey = o_custkey
    AND s_nationkey = n1.n_nationkey AND c_nationkey = n2.n_nationkey
    AND ((n1.n_name = 'FRANCE' AND n2.n_name = 'GERMANY') OR (n1.n_name = 'GERMANY' AND n2.n_name = 'FRANCE'))
    AND l_shipdate BETWEEN date '1995-01-01' AND date '1996-12-31') AS shipping
GROUP BY supp_nation, cust_nation, l_year ORDER BY supp_nation, cust_nation, l_year""",
    "q8": """
SELECT o_year, sum(CASE WHEN nation = 'BRAZIL' THEN volume ELSE 0 END) / sum(volume) AS mkt_share FROM (
  SELECT extract(year FROM o_orderdate) AS o_year, l_extendedprice * (1 - l_discount) AS volume,
    n2.n_name AS nation
  FROM part, supplier, lineitem, orders, customer, nation n1, nation n2, region
  WHERE p_partkey = l_partkey AND s_suppkey = l_suppkey AND l_orderkey = o_orderkey AND o_custkey = c_custkey
    AND c_nationkey = n1.n_nationkey AND n1.n_regionkey = r_regionkey AND r_name = 'AMERICA'
    AND s_nationkey = n2.n_nationkey AND o_orderdate BETWEEN date '1995-01-01' AND date '1996-12-31'
    AND p_type = 'ECONOMY ANODIZED STEEL') AS all_nations
GROUP BY o_year ORDER BY o_year""",
    "q9": """
SELECT nation, o_year, sum(amount) AS sum_profit FROM (
  SELECT n_name AS nation, extract(year FROM o_orderdate) AS o_year,
    l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity AS amount
  FROM part, supplier, lineitem, partsupp, orders, nation
  WHERE s_suppkey = l_suppkey AND ps_suppkey = l_suppkey AND ps_partkey = l_partkey AND p_partkey = l_partkey
    AND o_orderkey = l_orderkey AND s_nationkey = n_nationkey AND p_name LIKE '%green%') AS profit
GROUP BY nation, o_year ORDER BY nation, o_year DESC""",
    "q10": """
SELECT c_custkey, c_name, sum(l_extendedprice * (1 - l_discount)) AS revenue, c_acctbal, n_name, c_address,
  c_phone, c_comment
FROM customer, orders, lineitem, nation
WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND o_orderdate >= date '1993-10-01'
  AND o_orderdate < date '1993-10-01' + interval '3' month AND l_returnflag = 'R' AND c_nationkey = n_nationkey
GROUP BY c_custkey, c_name, c_acctbal, c_phone, n_name, c_address, c_comment ORDER BY revenue DESC LIMIT 20""",
    "q11": """
SELECT ps_partkey, sum(ps_supplycost * ps_availqty) AS value FROM partsupp, supplier, nation
WHERE ps_suppkey = s_suppkey AND s_nationkey = n_nationkey AND n_name = 'GERMANY'
GROUP BY ps_partkey HAVING sum(ps_supplycost * ps_availqty) > (
  SELECT sum(ps_supplycost * ps_availqty) * 0.05 FROM partsupp, supplier, nation
  WHERE ps_suppkey = s_suppkey AND s_nationkey = n_nationkey AND n_name = 'GERMANY')
ORDER BY value DESC""",
    "q12": """
SELECT l_shipmode,
  sum(CASE WHEN o_orderpriority = '1-URGENT' OR o_orderpriority = '2-HIGH' THEN 1 ELSE 0 END) AS high_line_count,
  sum(CASE WHEN o_orderpriority <> '1-URGENT' AND o_orderpriority <> '2-HIGH' THEN 1 ELSE 0 END) AS low_line_count
FROM orders, lineitem
WHERE o_orderkey = l_orderkey AND l_shipmode IN ('MAIL', 'SHIP') AND l_commitdate < l_receiptdate
  AND l_shipdate < l_commitdate AND l_receiptdate >= date '1994-01-01'
  AND l_receiptdate < date '1994-01-01' + interval '1' year
GROUP BY l_shipmode ORDER BY l_shipmode""",
    "q13": """
SELECT c_count, count(*) AS custdist FROM (
  SELECT c_custkey, count(o_orderkey) FROM customer LEFT OUTER JOIN orders
    ON c_custkey = o_custkey AND o_comment NOT LIKE '%special%requests%'
  GROUP BY c_custkey) AS c_orders (c_custkey, c_count)
GROUP BY c_count ORDER BY custdist DESC, c_count DESC""",
    "q14": """
SELECT 100.00 * sum(CASE WHEN p_type LIKE 'PROMO%' THEN l_extendedprice * (1 - l_discount) ELSE 0 END)
  / sum(l_extendedprice * (1 - l_discount)) AS promo_revenue
FROM lineitem, part WHERE l_partkey = p_partkey AND l_shipdate >= date '1995-09-01'
  AND l_shipdate < date '1995-09-01' + interval '1' month""",
    "q15": """
WITH revenue (supplier_no, total_revenue) AS (
  SELECT l_suppkey, sum(l_extendedprice * (1 - l_discount)) FROM lineitem
  WHERE l_shipdate >= date '1996-01-01' AND l_shipdate < date '1996-01-01' + interval '3' month
  GROUP BY l_suppkey)
SELECT s_suppkey, s_name, s_address, s_phone, total_revenue FROM supplier, revenue
WHERE s_suppkey = supplier_no AND total_revenue = (SELECT max(total_revenue) FROM revenue) ORDER BY s_suppkey""",
    "q16": """
SELECT p_brand, p_type, p_size, count(DISTINCT ps_suppkey) AS supplier_cnt FROM partsupp, part
WHERE p_partkey = ps_partkey AND p_brand <> 'Brand#45' AND p_type NOT LIKE 'MEDIUM POLISHED%'
  AND p_size IN (49, 14, 23, 45, 19, 3, 36, 9)
  AND ps_suppkey NOT IN (SELECT s_suppkey FROM supplier WHERE s_comment LIKE '%Customer%Complaints%')
GROUP BY p_brand, p_type, p_size ORDER BY supplier_cnt DESC, p_brand, p_type, p_size""",
    "q17": """
SELECT sum(l_extendedprice) / 7.0 AS avg_yearly FROM lineitem, part
WHERE p_partkey = l_partkey AND p_brand = 'Brand#23' AND p_container = 'MED BOX'
  AND l_quantity < (SELECT 0.2 * avg(l_quantity) FROM lineitem WHERE l_partkey = p_partkey)""",
    "q18": """
SELECT c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity)
FROM customer, orders, lineitem
WHERE o_orderkey IN (SELECT l_orderkey FROM lineitem GROUP BY l_orderkey HAVING sum(l_quantity) > 200)
  AND c_custkey = o_custkey AND o_orderkey = l_orderkey
GROUP BY c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice
ORDER BY o_totalprice DESC, o_orderdate LIMIT 100""",
    "q19": """
SELECT sum(l_extendedprice * (1 - l_discount)) AS revenue FROM lineitem, part
WHERE (p_partkey = l_partkey AND p_brand = 'Brand#12' AND p_container IN ('SM CASE', 'SM BOX', 'SM PACK', 'SM PKG')
    AND l_quantity >= 1 AND l_quantity <= 11 AND p_size BETWEEN 1 AND 50 AND l_shipmode IN ('AIR', 'AIR REG')
    AND l_shipinstruct = 'DELIVER IN PERSON')
  OR (p_partkey = l_partkey AND p_brand = 'Brand#23' AND p_container IN ('MED BAG', 'MED BOX', 'MED PKG')
    AND l_quantity >= 10 AND l_quantity <= 20 AND p_size BETWEEN 1 AND 50 AND l_shipmode IN ('AIR', 'AIR REG')
    AND l_shipinstruct = 'DELIVER IN PERSON')
  OR (p_partkey = l_partkey AND p_brand = 'Brand#34' AND p_container IN ('LG CASE', 'LG BOX', 'LG PACK')
    AND l_quantity >= 20 AND l_quantity <= 30 AND p_size BETWEEN 1 AND 50 AND l_shipmode IN ('AIR', 'AIR REG')
    AND l_shipinstruct = 'DELIVER IN PERSON')""",
    "q20": """
SELECT s_name, s_address FROM supplier, nation
WHERE s_suppkey IN (SELECT ps_suppkey FROM partsupp
    WHERE ps_partkey IN (SELECT p_partkey FROM part WHERE p_name LIKE 'forest%')
      AND ps_availqty > (SELECT 0.5 * sum(l_quantity) FROM lineitem WHERE l_partkey = ps_partkey
        AND l_suppkey = ps_suppkey AND l_shipdate >= date '1994-01-01'
        AND l_shipdate < date '1994-01-01' + interval '1' year))
  AND s_nationkey = n_nationkey AND n_name = 'CANADA' ORDER BY s_name""",
    "q21": """
SELECT s_name, count(*) AS numwait FROM supplier, lineitem l1, orders, nation
WHERE s_suppkey = l1.l_suppkey AND o_orderkey = l1.l_orderkey AND o_orderstatus = 'F'
  AND l1.l_receiptdate > l1.l_commitdate
  AND EXISTS (SELECT * FROM lineitem l2 WHERE l2.l_orderkey = l1.l_orderkey AND l2.l_suppkey <> l1.l_suppkey)
  AND NOT EXISTS (SELECT * FROM lineitem l3 WHERE l3.l_orderkey = l1.l_orderkey
    AND l3.l_suppkey <> l1.l_suppkey AND l3.l_receiptdate > l3.l_commitdate)
  AND s_nationkey = n_nationkey AND n_name = 'SAUDI ARABIA'
GROUP BY s_name ORDER BY numwait DESC, s_name LIMIT 100""",
    "q22": """
SELECT cntrycode, count(*) AS numcust, sum(c_acctbal) AS totacctbal FROM (
  SELECT substring(c_phone FROM 1 FOR 2) AS cntrycode, c_acctbal FROM customer
  WHERE substring(c_phone FROM 1 FOR 2) IN ('13', '31', '23', '29', '30', '18', '17')
    AND c_acctbal > (SELECT avg(c_acctbal) FROM customer WHERE c_acctbal > 0.00
      AND substring(c_phone FROM 1 FOR 2) IN ('13', '31', '23', '29', '30', '18', '17'))
    AND NOT EXISTS (SELECT * FROM orders WHERE o_custkey = c_custkey)) AS custsale
GROUP BY cntrycode ORDER BY cntrycode""",
}  # fmt: skip

STAGE = Stage("tpch", TABLES, tuple(Shape(f"tpch_{n}", sql) for n, sql in QUERIES.items()))
