"""The Nexmark queries as one-shot batches in DuckDB's words, with the columns of our views."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Query:
    """sql: DuckDB's. reads: the streams. determined: the columns that the data decides alone (where
    several rows are equally good, which of them is shown is open); empty = all."""

    name: str
    sql: str
    reads: tuple[str, ...] = ("bid",)
    determined: tuple[str, ...] = ()


_CHEAP, _DEAR = "price < 10000", "price >= 1000000"
_FAIR = "price >= 10000 AND price < 1000000"
_COUNTS = ", ".join(
    f"count({what}){condition} AS c{4 * i + j + 1}"
    for i, what in enumerate(("*", "DISTINCT bidder", "DISTINCT auction"))
    for j, condition in enumerate(("", *(f" FILTER (WHERE {c})" for c in (_CHEAP, _FAIR, _DEAR))))
)
_DAY = "strftime(date_time, '%Y-%m-%d')"
_OPEN = "a.id = b.auction AND b.date_time BETWEEN a.date_time AND a.expires"
_URL_CHANNEL = "nullif(regexp_extract(url, '(&|^)channel_id=([^&]*)', 2), '')"
_TEN_SECONDS = "time_bucket(INTERVAL 10 SECOND, date_time)"

QUERIES: tuple[Query, ...] = (
    Query("q0", """SELECT auction, bidder, price, date_time AS "dateTime", extra FROM bid"""),
    Query(
        "q1",
        """SELECT auction, bidder, CAST(0.908 * price AS DECIMAL(23, 3)) AS price,
               date_time AS "dateTime", extra FROM bid""",
    ),
    Query("q2", "SELECT auction, price FROM bid WHERE auction % 123 = 0"),
    Query(
        "q3",
        """SELECT p.name, p.city, p.state, a.id FROM auction a JOIN person p ON a.seller = p.id
           WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')""",
        ("person", "auction"),
    ),
    Query(
        "q4",
        f"""SELECT category, CAST(floor(avg(final)) AS BIGINT) AS final
            FROM (SELECT max(b.price) AS final, a.category FROM auction a, bid b
                  WHERE {_OPEN} GROUP BY a.id, a.category)
            GROUP BY category""",
        ("auction", "bid"),
    ),
    Query(
        "q5",
        """WITH hops AS (
             SELECT auction, start, count(*) AS num
             FROM (SELECT auction, unnest(range(ms // 2000 * 2000 - 8000, ms // 2000 * 2000 + 2000,
                                                2000)) AS start
                   FROM (SELECT auction, epoch_ms(date_time) AS ms FROM bid))
             GROUP BY ALL)
           SELECT auction, num FROM (SELECT *, max(num) OVER (PARTITION BY start) AS m FROM hops)
           WHERE num >= m""",
    ),
    Query(
        "q7",
        f"""SELECT b.auction, b.price, b.bidder, b.date_time AS "dateTime", b.extra FROM bid b
            JOIN (SELECT max(price) AS highest, {_TEN_SECONDS} AS start FROM bid GROUP BY start) m
              ON b.price = m.highest
            WHERE b.date_time BETWEEN m.start AND m.start + INTERVAL 10 SECOND""",
    ),
    Query(
        "q8",
        f"""SELECT p.id, p.name, p.start AS stime
            FROM (SELECT DISTINCT id, name, {_TEN_SECONDS} AS start FROM person) p
            JOIN (SELECT DISTINCT seller, {_TEN_SECONDS} AS start FROM auction) a
              ON p.id = a.seller AND p.start = a.start""",
        ("person", "auction"),
    ),
    Query(
        "q9",
        f"""SELECT id, item_name AS "itemName", description, initial_bid AS "initialBid", reserve,
                date_time AS "dateTime", expires, seller, category, extra, auction, bidder, price,
                bid_date_time AS "bid_dateTime", bid_extra
            FROM (SELECT a.*, b.auction, b.bidder, b.price, b.date_time AS bid_date_time,
                         b.extra AS bid_extra, row_number() OVER (
                           PARTITION BY a.id ORDER BY b.price DESC, b.date_time) AS place
                  FROM auction a, bid b WHERE {_OPEN})
            WHERE place <= 1""",
        ("auction", "bid"),
        ("id", "itemName", "seller", "category", "extra", "price", "bid_dateTime"),
    ),
    Query(
        "q11",
        """SELECT bidder, count(*) AS bid_count, min(date_time) AS starttime,
                  max(date_time) + INTERVAL 10 SECOND AS endtime
           FROM (SELECT bidder, date_time,
                        sum(opens) OVER (PARTITION BY bidder ORDER BY date_time, n) AS session
                 FROM (SELECT bidder, date_time, row_number() OVER w AS n,
                              CASE WHEN date_time - lag(date_time) OVER w > INTERVAL 10 SECOND
                              THEN 1 ELSE 0 END AS opens
                       FROM bid WINDOW w AS (PARTITION BY bidder ORDER BY date_time)))
           GROUP BY bidder, session""",
    ),
    Query(
        "q13",
        """SELECT b.auction, b.bidder, b.price, b.date_time AS "dateTime", s.value
           FROM bid b JOIN side_input s ON b.auction % 10000 = s.key""",
    ),
    Query(
        "q14",
        """SELECT auction, bidder, CAST(0.908 * price AS DECIMAL(23, 3)) AS price,
               CASE WHEN hour(date_time) BETWEEN 8 AND 18 THEN 'dayTime'
                    WHEN hour(date_time) <= 6 OR hour(date_time) >= 20 THEN 'nightTime'
                    ELSE 'otherTime' END AS "bidTimeType",
               date_time AS "dateTime", extra,
               length(extra) - length(replace(extra, 'c', '')) AS c_counts
           FROM bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000""",
    ),
    Query("q15", f"SELECT {_DAY} AS day, {_COUNTS} FROM bid GROUP BY {_DAY}"),
    Query(
        "q16",
        f"""SELECT channel, {_DAY} AS day, max(strftime(date_time, '%H:%M')) AS minute, {_COUNTS}
            FROM bid GROUP BY channel, {_DAY}""",
    ),
    Query(
        "q17",
        f"""SELECT auction, {_DAY} AS day, count(*) AS total_bids,
                count(*) FILTER (WHERE {_CHEAP}) AS rank1_bids,
                count(*) FILTER (WHERE {_FAIR}) AS rank2_bids,
                count(*) FILTER (WHERE {_DEAR}) AS rank3_bids,
                min(price) AS min_price, max(price) AS max_price,
                CAST(floor(avg(price)) AS BIGINT) AS avg_price, sum(price) AS sum_price
            FROM bid GROUP BY auction, {_DAY}""",
    ),
    Query(
        "q18",
        """SELECT auction, bidder, price, channel, url, date_time AS "dateTime", extra
           FROM (SELECT *, row_number() OVER (
                   PARTITION BY bidder, auction ORDER BY date_time DESC) AS place FROM bid)
           WHERE place <= 1""",
        determined=("auction", "bidder", "dateTime"),
    ),
    Query(
        "q19",
        """SELECT auction, bidder, price, channel, url, date_time AS "dateTime", extra, rank_number
           FROM (SELECT *, row_number() OVER (
                   PARTITION BY auction ORDER BY price DESC) AS rank_number FROM bid)
           WHERE rank_number <= 10""",
        determined=("auction", "price", "rank_number"),
    ),
    Query(
        "q20",
        """SELECT auction, bidder, price, channel, url, b.date_time AS "bid_dateTime",
               b.extra AS bid_extra, item_name AS "itemName", description,
               initial_bid AS "initialBid", reserve, a.date_time AS "auction_dateTime", expires,
               seller, category, a.extra AS auction_extra
           FROM bid b JOIN auction a ON b.auction = a.id WHERE a.category = 10""",
        ("auction", "bid"),
    ),
    Query(
        "q21",
        f"""SELECT auction, bidder, price, channel,
                CASE lower(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1'
                    WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3' ELSE {_URL_CHANNEL} END
                AS channel_id
            FROM bid WHERE {_URL_CHANNEL} IS NOT NULL
                OR lower(channel) IN ('apple', 'google', 'facebook', 'baidu')""",
    ),
    Query(
        "q22",
        """SELECT auction, bidder, price, channel, split_part(url, '/', 4) AS dir1,
               split_part(url, '/', 5) AS dir2, split_part(url, '/', 6) AS dir3 FROM bid""",
    ),
)
