"""In the manner of TPC-DS: a star of sales, with windows, rollups and set operations over it."""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa

from ...oracle.batch import Shape
from ..harness import Stage, Table
from .small import holes

FIRST = datetime.date(2001, 1, 1)
DAYS, ITEMS, STORES, CUSTOMERS = 120, 16, 4, 20


def ints(values: object) -> pa.Array:
    return pa.array(np.asarray(values, dtype=np.int32))


def date_dim(random: np.random.Generator, scale: int) -> pa.Table:
    dates = [FIRST + datetime.timedelta(days=i * 5) for i in range(DAYS)]
    return pa.table({
        "d_sk": ints(np.arange(DAYS)), "d_date": pa.array(dates), "d_year": ints([d.year for d in dates]),
        "d_moy": ints([d.month for d in dates]), "d_qoy": ints([(d.month + 2) // 3 for d in dates]),
        "d_dow": ints([d.weekday() for d in dates]),
    })  # fmt: skip


def item(random: np.random.Generator, scale: int) -> pa.Table:
    n = ITEMS * scale
    categories = [("Books", "Music", "Home")[i] for i in random.integers(0, 3, n)]
    return pa.table({
        "i_sk": ints(np.arange(n)), "i_category": pa.array(holes(random, categories)),
        "i_class": [f"class{i}" for i in random.integers(0, 4, n)],
        "i_brand": [f"brand{i}" for i in random.integers(0, 5, n)],
        "i_price": pa.array([Decimal(int(c)) / 100 for c in random.integers(100, 9000, n)], pa.decimal128(7, 2)),
    })  # fmt: skip


def store(random: np.random.Generator, scale: int) -> pa.Table:
    return pa.table({
        "s_sk": ints(np.arange(STORES)), "s_name": ["ought", "able", "ese", "bar"],
        "s_state": ["TN", "TN", "SD", "AL"],
    })  # fmt: skip


def customer(random: np.random.Generator, scale: int) -> pa.Table:
    n = CUSTOMERS * scale
    names = [("Ann", "Bo", "Cy", "Di")[i] for i in random.integers(0, 4, n)]
    return pa.table({
        "c_sk": ints(np.arange(n)), "c_name": pa.array(holes(random, names)),
        "c_birth": pa.array(holes(random, random.integers(1950, 1990, n).tolist()), pa.int32()),
    })  # fmt: skip


def sales(random: np.random.Generator, n: int) -> pa.Table:
    customers = pa.array(holes(random, random.integers(0, CUSTOMERS, n).tolist()), pa.int32())
    prices = [Decimal(int(c)) / 100 for c in random.integers(50, 20000, n)]
    return pa.table({
        "ticket": ints(np.arange(n)), "date_sk": pa.array(holes(random, random.integers(0, DAYS, n).tolist()), pa.int32()),
        "item_sk": ints(random.integers(0, ITEMS, n)), "store_sk": ints(random.integers(0, STORES, n)),
        "customer_sk": customers, "quantity": ints(random.integers(1, 30, n)),
        "price": pa.array(holes(random, prices, 0.05), pa.decimal128(7, 2)),
        "profit": pa.array([Decimal(int(c)) / 100 for c in random.integers(-5000, 9000, n)], pa.decimal128(7, 2)),
    })  # fmt: skip


SALES = (
    "ticket INT PRIMARY KEY, date_sk INT, item_sk INT NOT NULL, store_sk INT, customer_sk INT, quantity INT, "
    "price NUMERIC(7,2), profit NUMERIC(7,2)"
)
TABLES = (
    Table(
        "date_dim", "d_sk INT PRIMARY KEY, d_date DATE, d_year INT, d_moy INT, d_qoy INT, d_dow INT",
        date_dim, "d_sk",
    ),
    Table(
        "item",
        "i_sk INT PRIMARY KEY, i_category VARCHAR, i_class VARCHAR, i_brand VARCHAR, i_price NUMERIC(7,2)",
        item, "i_sk",
    ),
    Table("store", "s_sk INT PRIMARY KEY, s_name VARCHAR, s_state VARCHAR", store, "s_sk"),
    Table("customer", "c_sk INT PRIMARY KEY, c_name VARCHAR, c_birth INT", customer, "c_sk", "c_birth"),
    Table("store_sales", SALES, lambda r, s: sales(r, 220 * s), "ticket", "quantity"),
    Table("web_sales", SALES, lambda r, s: sales(r, 120 * s), "ticket", "quantity"),
)  # fmt: skip

MONTHLY = """
  SELECT i_category, i_brand, s_name, d_year, d_moy, sum(price) AS sum_sales,
    avg(sum(price)) OVER (PARTITION BY i_category, i_brand, s_name, d_year) AS avg_monthly,
    rank() OVER (PARTITION BY i_category, i_brand, s_name ORDER BY d_year, d_moy) AS rn
  FROM item, store_sales, date_dim, store
  WHERE item_sk = i_sk AND date_sk = d_sk AND store_sk = s_sk
  GROUP BY i_category, i_brand, s_name, d_year, d_moy"""

QUERIES: dict[str, str] = {
    "q3": "SELECT d_year, i_brand, sum(price) AS s FROM date_dim, store_sales, item WHERE d_sk = date_sk AND item_sk = i_sk AND d_moy = 11 GROUP BY d_year, i_brand ORDER BY d_year, s DESC, i_brand LIMIT 100",
    "q6": "SELECT c_name, count(*) AS n FROM customer, store_sales, item i WHERE c_sk = customer_sk AND item_sk = i_sk AND i.i_price > 0.9 * (SELECT avg(j.i_price) FROM item j WHERE j.i_category = i.i_category) GROUP BY c_name HAVING count(*) >= 2",
    "q7": "SELECT i_brand, avg(quantity) AS a, avg(price) AS b, avg(profit) AS c FROM store_sales, item, date_dim WHERE item_sk = i_sk AND date_sk = d_sk AND d_year = 2001 GROUP BY i_brand ORDER BY i_brand LIMIT 100",
    "q9": "SELECT CASE WHEN (SELECT count(*) FROM store_sales WHERE quantity BETWEEN 1 AND 10) > 30 THEN (SELECT avg(price) FROM store_sales WHERE quantity BETWEEN 1 AND 10) ELSE (SELECT avg(profit) FROM store_sales WHERE quantity BETWEEN 1 AND 10) END AS bucket1 FROM store WHERE s_sk = 1",
    "q10": "SELECT c_birth / 10 AS decade, count(*) AS n FROM customer c WHERE EXISTS (SELECT * FROM store_sales WHERE customer_sk = c_sk) AND (EXISTS (SELECT * FROM web_sales WHERE customer_sk = c_sk AND quantity > 20) OR NOT EXISTS (SELECT * FROM web_sales WHERE customer_sk = c_sk)) GROUP BY c_birth / 10",
    "q12": "SELECT i_category, i_class, sum(price) AS revenue, sum(price) * 100 / sum(sum(price)) OVER (PARTITION BY i_class) AS ratio FROM web_sales, item WHERE item_sk = i_sk GROUP BY i_category, i_class",
    "q16": "SELECT count(DISTINCT ticket) AS n, sum(profit) AS p FROM web_sales w WHERE EXISTS (SELECT * FROM web_sales x WHERE x.customer_sk = w.customer_sk AND x.store_sk <> w.store_sk) AND NOT EXISTS (SELECT * FROM store_sales s WHERE s.item_sk = w.item_sk AND s.quantity = w.quantity)",
    "q18": "SELECT i_category, i_class, i_brand, avg(quantity) AS a, avg(price) AS b FROM store_sales, item WHERE item_sk = i_sk GROUP BY ROLLUP (i_category, i_class, i_brand)",
    "q22": "SELECT i_category, d_year, d_qoy, avg(quantity) AS q FROM store_sales, date_dim, item WHERE date_sk = d_sk AND item_sk = i_sk GROUP BY ROLLUP (i_category, d_year, d_qoy) ORDER BY q, i_category, d_year, d_qoy LIMIT 100",
    "q27": "SELECT i_brand, s_state, grouping(s_state) AS g, avg(quantity) AS a, avg(price) AS b FROM store_sales, store, item WHERE store_sk = s_sk AND item_sk = i_sk GROUP BY ROLLUP (i_brand, s_state)",
    "q30": "WITH r AS (SELECT customer_sk AS c, store_sk AS s, sum(profit) AS p FROM store_sales GROUP BY customer_sk, store_sk) SELECT c_sk, c_name, r.p FROM r, customer WHERE r.c = c_sk AND r.p > (SELECT avg(x.p) * 1.2 FROM r x WHERE x.s = r.s) ORDER BY c_sk, r.p LIMIT 100",
    "q34": "SELECT c_name, ticket, n FROM (SELECT customer_sk, max(ticket) AS ticket, count(*) AS n FROM store_sales, date_dim WHERE date_sk = d_sk AND (d_dow = 0 OR d_dow = 4) GROUP BY customer_sk) x, customer WHERE customer_sk = c_sk AND n BETWEEN 1 AND 9",
    "q36": "SELECT sum(profit) / sum(price) AS margin, i_category, i_class, grouping(i_category) + grouping(i_class) AS lochierarchy, rank() OVER (PARTITION BY grouping(i_category) + grouping(i_class), CASE WHEN grouping(i_class) = 0 THEN i_category END ORDER BY sum(profit) / sum(price), i_class, i_category) AS r FROM store_sales, item WHERE item_sk = i_sk GROUP BY ROLLUP (i_category, i_class)",
    "q38": "SELECT count(*) AS n FROM (SELECT DISTINCT c_name, d_date FROM store_sales, date_dim, customer WHERE date_sk = d_sk AND customer_sk = c_sk INTERSECT SELECT DISTINCT c_name, d_date FROM web_sales, date_dim, customer WHERE date_sk = d_sk AND customer_sk = c_sk) x",
    "q44": "SELECT a.rnk, i1.i_brand AS best, i2.i_brand AS worst FROM (SELECT item_sk, rank() OVER (ORDER BY avg(profit) ASC, item_sk) AS rnk FROM store_sales GROUP BY item_sk) a, (SELECT item_sk, rank() OVER (ORDER BY avg(profit) DESC, item_sk) AS rnk FROM store_sales GROUP BY item_sk) d, item i1, item i2 WHERE a.rnk = d.rnk AND a.rnk < 11 AND i1.i_sk = a.item_sk AND i2.i_sk = d.item_sk",
    "q47": f"WITH v1 AS ({MONTHLY}) SELECT a.i_category, a.i_brand, a.s_name, a.d_year, a.d_moy, a.sum_sales, b.sum_sales AS psum, c.sum_sales AS nsum FROM v1 a, v1 b, v1 c WHERE a.i_category = b.i_category AND a.i_category = c.i_category AND a.i_brand = b.i_brand AND a.i_brand = c.i_brand AND a.s_name = b.s_name AND a.s_name = c.s_name AND a.rn = b.rn + 1 AND a.rn = c.rn - 1",
    "q51": "SELECT item_sk, d_date, sum(sum(price)) OVER (PARTITION BY item_sk ORDER BY d_date ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS cume FROM web_sales, date_dim WHERE date_sk = d_sk GROUP BY item_sk, d_date",
    "q53": "SELECT * FROM (SELECT i_brand, d_qoy, sum(price) AS s, avg(sum(price)) OVER (PARTITION BY i_brand) AS a FROM item, store_sales, date_dim WHERE item_sk = i_sk AND date_sk = d_sk GROUP BY i_brand, d_qoy) x WHERE CASE WHEN a > 0 THEN abs(s - a) / a ELSE NULL END > 0.1",
    "q54": "WITH c AS (SELECT DISTINCT c_sk FROM (SELECT customer_sk FROM web_sales UNION ALL SELECT customer_sk FROM store_sales WHERE quantity > 25) x, customer WHERE customer_sk = c_sk), r AS (SELECT c_sk, sum(price) AS revenue FROM c, store_sales WHERE c_sk = customer_sk GROUP BY c_sk) SELECT cast(revenue / 500 AS INT) AS segment, count(*) AS n FROM r GROUP BY cast(revenue / 500 AS INT)",
    "q56": "WITH s AS (SELECT i_brand, sum(price) AS total FROM store_sales, item WHERE item_sk = i_sk AND i_brand IN (SELECT i_brand FROM item WHERE i_category = 'Music') GROUP BY i_brand), w AS (SELECT i_brand, sum(price) AS total FROM web_sales, item WHERE item_sk = i_sk GROUP BY i_brand) SELECT i_brand, sum(total) AS total FROM (SELECT * FROM s UNION ALL SELECT * FROM w) x GROUP BY i_brand",
    "q59": "SELECT y.s_name, y.m, y.s / x.s AS r FROM (SELECT s_name, d_moy AS m, sum(price) AS s FROM store_sales, store, date_dim WHERE store_sk = s_sk AND date_sk = d_sk AND d_year = 2001 GROUP BY s_name, d_moy) y, (SELECT s_name, d_moy AS m, sum(price) AS s FROM store_sales, store, date_dim WHERE store_sk = s_sk AND date_sk = d_sk AND d_year = 2002 GROUP BY s_name, d_moy) x WHERE y.s_name = x.s_name AND y.m = x.m AND x.s > 0",
    "q65": "SELECT s_name, i_brand, sc.revenue FROM store, item, (SELECT store_sk, avg(revenue) AS ave FROM (SELECT store_sk, item_sk, sum(price) AS revenue FROM store_sales GROUP BY store_sk, item_sk) sa GROUP BY store_sk) sb, (SELECT store_sk, item_sk, sum(price) AS revenue FROM store_sales GROUP BY store_sk, item_sk) sc WHERE sb.store_sk = sc.store_sk AND sc.revenue <= 0.5 * sb.ave AND s_sk = sc.store_sk AND i_sk = sc.item_sk",
    "q67": "SELECT * FROM (SELECT i_category, i_class, s_name, sumsales, rank() OVER (PARTITION BY i_category ORDER BY sumsales DESC) AS rk FROM (SELECT i_category, i_class, s_name, sum(coalesce(price * quantity, 0)) AS sumsales FROM store_sales, store, item WHERE store_sk = s_sk AND item_sk = i_sk GROUP BY ROLLUP (i_category, i_class, s_name)) d1) d2 WHERE rk <= 5",
    "q70": "SELECT sum(profit) AS s, s_state, s_name, grouping(s_state) + grouping(s_name) AS h FROM store_sales, store x WHERE s_sk = store_sk AND x.s_state IN (SELECT s_state FROM (SELECT s_state, rank() OVER (ORDER BY sum(profit) DESC) AS r FROM store_sales, store WHERE s_sk = store_sk GROUP BY s_state) t WHERE r <= 2) GROUP BY ROLLUP (s_state, s_name)",
    "q74": "WITH y AS (SELECT customer_sk AS c, d_year, sum(price) AS s, 's' AS kind FROM store_sales, date_dim WHERE date_sk = d_sk GROUP BY customer_sk, d_year UNION ALL SELECT customer_sk, d_year, sum(price), 'w' FROM web_sales, date_dim WHERE date_sk = d_sk GROUP BY customer_sk, d_year) SELECT a.c FROM y a, y b, y d, y f WHERE a.c = b.c AND a.c = d.c AND a.c = f.c AND a.kind = 's' AND b.kind = 's' AND d.kind = 'w' AND f.kind = 'w' AND a.d_year = 2001 AND b.d_year = 2002 AND d.d_year = 2001 AND f.d_year = 2002 AND a.s > 0 AND d.s > 0",
    "q75": "SELECT d_year, i_brand, sum(q) AS q FROM (SELECT d_year, i_brand, quantity AS q FROM store_sales, item, date_dim WHERE item_sk = i_sk AND date_sk = d_sk UNION SELECT d_year, i_brand, quantity FROM web_sales, item, date_dim WHERE item_sk = i_sk AND date_sk = d_sk) x GROUP BY d_year, i_brand",
    "q77": "SELECT channel, id, sum(s) AS s FROM (SELECT 'store' AS channel, store_sk AS id, sum(price) AS s FROM store_sales GROUP BY store_sk UNION ALL SELECT 'web', store_sk, sum(price) FROM web_sales GROUP BY store_sk) x GROUP BY ROLLUP (channel, id)",
    "q86": "SELECT sum(price) AS s, i_category, i_class, rank() OVER (PARTITION BY grouping(i_category) + grouping(i_class) ORDER BY sum(price) DESC, i_category, i_class) AS r FROM web_sales, item WHERE i_sk = item_sk GROUP BY ROLLUP (i_category, i_class)",
    "q87": "SELECT count(*) AS n FROM (SELECT DISTINCT c_name, date_sk FROM store_sales, customer WHERE customer_sk = c_sk EXCEPT SELECT DISTINCT c_name, date_sk FROM web_sales, customer WHERE customer_sk = c_sk) x",
    "q88": "SELECT * FROM (SELECT count(*) AS h1 FROM store_sales WHERE quantity < 10) a, (SELECT count(*) AS h2 FROM store_sales WHERE quantity BETWEEN 10 AND 20) b, (SELECT count(*) AS h3 FROM store_sales WHERE quantity > 20) c",
    "q97": "WITH s AS (SELECT customer_sk, item_sk FROM store_sales GROUP BY customer_sk, item_sk), w AS (SELECT customer_sk, item_sk FROM web_sales GROUP BY customer_sk, item_sk) SELECT sum(CASE WHEN s.customer_sk IS NOT NULL AND w.customer_sk IS NULL THEN 1 ELSE 0 END) AS store_only, sum(CASE WHEN s.customer_sk IS NULL AND w.customer_sk IS NOT NULL THEN 1 ELSE 0 END) AS web_only, sum(CASE WHEN s.customer_sk IS NOT NULL AND w.customer_sk IS NOT NULL THEN 1 ELSE 0 END) AS both_of_them FROM s FULL JOIN w ON s.customer_sk = w.customer_sk AND s.item_sk = w.item_sk",
    "q99": "SELECT s_name, sum(CASE WHEN quantity <= 10 THEN 1 ELSE 0 END) AS few, sum(CASE WHEN quantity > 10 THEN 1 ELSE 0 END) AS many FROM store_sales, store, date_dim WHERE store_sk = s_sk AND date_sk = d_sk AND d_date BETWEEN date '2001-03-01' AND date '2001-03-01' + INTERVAL '300' day GROUP BY s_name ORDER BY s_name",
}  # fmt: skip

STAGE = Stage("tpcds", TABLES, tuple(Shape(f"tpcds_{n}", sql) for n, sql in QUERIES.items()))
