"""The Nexmark model: people, auctions and bids of an online auction house, drawn column-wise.

Events come in proportions 1 : 3 : 46 (person, auction, bid). Event number i has event time
base + i / rate. People and auctions get consecutive ids from 1000. Three quarters of the auctions
belong to a "hot" seller and three quarters of the bids come from a "hot" bidder; half of the bids
go to a "hot" auction, the others to one of the last 100 auctions or the next 10. Half of the bids
come by one of four hot channels, the others by one of 10,000.

Blocks of 100,000 events have a random stream of their own, (seed, block): any block can be made
alone, and N events are a prefix of any larger number with the same seed and rate. The *order* in
which a block draws from its stream is part of the model: changing it changes every result that is
compared with other engines.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.connectors.formats.base import Int64Array

BLOCK_EVENTS = 100_000
PERSONS, AUCTIONS, BIDS = 1, 3, 46
EPOCH_EVENTS = PERSONS + AUCTIONS + BIDS
BASE_TIME_MS = 1_436_918_400_000  # 2015-07-15 00:00:00 UTC
DEFAULT_RATE = 10_000

_FIRST_ID = 1000
_FIRST_CATEGORY, _CATEGORIES = 10, 5
_HOT_STRIDE = 100  # ids per batch that share one hot seller, bidder or auction
_HOT_SELLER, _HOT_BIDDER, _HOT_AUCTION = 4, 4, 2  # all but one in so many are hot
_ACTIVE_PEOPLE, _IN_FLIGHT, _LEAD = 1000, 100, 10
_PERSON_BYTES, _AUCTION_BYTES, _BID_BYTES = 200, 500, 100
_CHANNELS = 10_000
_HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
_DISORDER_STREAM = 7
_POOL_STREAM = 1 << 40
_POOL_BYTES, _POOL_MARGIN = 1 << 20, 2048

_FIRST_NAMES = (
    "Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter",
)  # fmt: skip
_LAST_NAMES = (
    "Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris",
)  # fmt: skip
_CITIES = (
    "Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle",
    "Kent", "Cheyenne",
)  # fmt: skip
_STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")

TABLES: dict[str, tuple[str, ...]] = {
    "person": ("id", "name", "email_address", "credit_card", "city", "state", "date_time", "extra"),
    "auction": (
        "id", "item_name", "description", "initial_bid", "reserve", "date_time", "expires",
        "seller", "category", "extra",
    ),
    "bid": ("auction", "bidder", "price", "channel", "url", "date_time", "extra"),
}  # fmt: skip
"""Columns of each table. Ids, prices and categories are int64, times int64 ms since 1970."""

ROWS_PER_BLOCK = {
    "person": BLOCK_EVENTS // EPOCH_EVENTS * PERSONS,
    "auction": BLOCK_EVENTS // EPOCH_EVENTS * AUCTIONS,
    "bid": BLOCK_EVENTS // EPOCH_EVENTS * BIDS,
}


@dataclass(frozen=True)
class Rows:
    """Rows of one table in order of arrival: columns by name [n], event numbers int64 [n]."""

    columns: dict[str, pa.Array]
    numbers: Int64Array


class _TextPool:
    """Random strings of any length, cut out of one long random text."""

    def __init__(self, rng: np.random.Generator, *, spaces: bool) -> None:
        letters = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz", np.uint8)
        self._pool = letters[rng.integers(0, 26, _POOL_BYTES)]
        if spaces:  # a blank about every 13th letter, never two in a row
            blank = np.flatnonzero(rng.integers(0, 13, _POOL_BYTES) == 0)
            blank = blank[np.concatenate(([True], np.diff(blank) > 1))]
            self._pool[blank] = ord(" ")

    def draw(
        self, rng: np.random.Generator, lengths: Int64Array, *, trim: bool = False
    ) -> pa.Array:
        """string [n] of these lengths; trim: no blank at either end."""
        lengths = np.maximum(lengths, 0).astype(np.int64)
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        starts = rng.integers(0, _POOL_BYTES - _POOL_MARGIN, len(lengths))
        data = self._pool[np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)]
        if trim:
            filled = lengths > 0
            for ends in (offsets[:-1][filled], offsets[1:][filled] - 1):
                data[ends[data[ends] == ord(" ")]] = ord("x")
        return pa.StringArray.from_buffers(
            len(lengths), pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)
        )


@functools.lru_cache(maxsize=4)
def _pools(seed: int) -> tuple[_TextPool, _TextPool, pa.Array, pa.Array]:
    """(plain text, text with blanks, channels, their urls) of a seed; a quarter second to make."""
    rng = np.random.Generator(np.random.PCG64([seed, _POOL_STREAM]))
    plain, spaced = _TextPool(rng, spaces=False), _TextPool(rng, spaces=True)
    alphabet = "abcdefghijklmnopqrstuvwxyz_"

    def word() -> str:
        count = rng.integers(3, 6)
        return "".join(alphabet[c] for c in rng.integers(0, 27, count))

    def url() -> str:
        return f"https://www.nexmark.com/{word()}/{word()}/{word()}/item.htm?query=1"

    channels, urls = list(_HOT_CHANNELS), [url() for _ in _HOT_CHANNELS]
    for i in range(_CHANNELS):
        address = url()
        if rng.integers(0, 10) > 0:  # nine in ten name their channel
            address += f"&channel_id={(i * 2654435761) % (1 << 31)}"
        channels.append(f"channel-{i}")
        urls.append(address)
    return plain, spaced, pa.array(channels), pa.array(urls)


@functools.cache
def _person_tables() -> tuple[pa.Array, pa.Array, pa.Array, pa.Array]:
    """(all names, cities, states, the four-digit groups of a card)."""
    names = [f"{first} {last}" for first in _FIRST_NAMES for last in _LAST_NAMES]
    digits = pa.array([f"{i:04d}" for i in range(10_000)])
    return pa.array(names), pa.array(_CITIES), pa.array(_STATES), digits


class NexmarkModel:
    """One data set. seed, rate (events per second of event time), max_disorder_ms: each event is
    delayed by up to so much, within its block."""

    def __init__(self, seed: int = 1, rate: int = DEFAULT_RATE, max_disorder_ms: int = 0) -> None:
        self._seed = seed
        self._rate = rate
        self._disorder_ms = max_disorder_ms
        self._plain, self._spaced, self._channels, self._urls = _pools(seed)

    def time_ms(self, numbers: Int64Array) -> Int64Array:
        """Event time of events, ms since 1970."""
        return BASE_TIME_MS + numbers * 1000 // self._rate

    def block(self, number: int) -> dict[str, Rows]:
        """All tables of block `number`, each in order of arrival."""
        rng = np.random.Generator(np.random.PCG64([self._seed, number]))
        numbers = np.arange(number * BLOCK_EVENTS, (number + 1) * BLOCK_EVENTS, dtype=np.int64)
        kind = numbers % EPOCH_EVENTS
        is_person = kind < PERSONS
        is_bid = kind >= PERSONS + AUCTIONS
        is_auction = ~is_person & ~is_bid
        made = {
            "person": self._persons(rng, numbers[is_person]),
            "auction": self._auctions(rng, numbers[is_auction]),
            "bid": self._bids(rng, numbers[is_bid]),
        }
        if self._disorder_ms:
            return {name: self._disordered(rows, number) for name, rows in made.items()}
        return made

    def _disordered(self, rows: Rows, block: int) -> Rows:
        rng = np.random.Generator(np.random.PCG64([self._seed, block, _DISORDER_STREAM]))
        delay = rng.random(len(rows.numbers)) * self._disorder_ms
        order = np.argsort(self.time_ms(rows.numbers) + delay, kind="stable")
        taken = pa.array(order)
        return Rows({k: v.take(taken) for k, v in rows.columns.items()}, rows.numbers[order])

    # --- the three tables; the order of the draws is fixed ----------------------------------------
    def _persons(self, rng: np.random.Generator, numbers: Int64Array) -> Rows:
        n = len(numbers)
        names, cities, states, digits = _person_tables()
        first, last = rng.integers(0, len(_FIRST_NAMES), n), rng.integers(0, len(_LAST_NAMES), n)
        name = names.take(pa.array(first * len(_LAST_NAMES) + last))
        user = self._plain.draw(rng, rng.integers(3, 7, n))
        domain = self._plain.draw(rng, rng.integers(3, 5, n))
        email = pc.binary_join_element_wise(
            user, pc.binary_join_element_wise(domain, "com", "."), "@"
        )
        groups = rng.integers(0, 10_000, (n, 4))
        card = pc.binary_join_element_wise(
            *(digits.take(pa.array(groups[:, i])) for i in range(4)), " "
        )
        city = cities.take(pa.array(rng.integers(0, len(_CITIES), n)))
        state = states.take(pa.array(rng.integers(0, len(_STATES), n)))
        used = 8 + _length(name) + _length(email) + 19 + _length(city) + 2
        extra = self._plain.draw(rng, _padding(rng, used, _PERSON_BYTES))
        ids = pa.array(numbers // EPOCH_EVENTS + _FIRST_ID)
        columns = (ids, name, email, card, city, state, pa.array(self.time_ms(numbers)), extra)
        return Rows(dict(zip(TABLES["person"], columns, strict=True)), numbers)

    def _auctions(self, rng: np.random.Generator, numbers: Int64Array) -> Rows:
        n = len(numbers)
        epoch, times = numbers // EPOCH_EVENTS, self.time_ms(numbers)
        ids = epoch * AUCTIONS + numbers % EPOCH_EVENTS - PERSONS + _FIRST_ID
        hot = rng.integers(0, _HOT_SELLER, n) > 0
        seller = np.where(hot, epoch // _HOT_STRIDE * _HOT_STRIDE, _someone(rng, epoch)) + _FIRST_ID
        category = _FIRST_CATEGORY + rng.integers(0, _CATEGORIES, n)
        initial = _price(rng, n)
        horizon = self.time_ms(numbers + _IN_FLIGHT * EPOCH_EVENTS // AUCTIONS) - times
        expires = times + 1 + (rng.random(n) * np.maximum(horizon * 2, 1)).astype(np.int64)
        item = self._spaced.draw(rng, rng.integers(3, 20, n), trim=True)
        description = self._spaced.draw(rng, rng.integers(3, 100, n), trim=True)
        reserve = initial + _price(rng, n)
        used = 48 + _length(item) + _length(description)
        extra = self._plain.draw(rng, _padding(rng, used, _AUCTION_BYTES))
        whole = (pa.array(v) for v in (ids, initial, reserve, times, expires, seller, category))
        key, low, least, when, until, owner, group = whole
        columns = (key, item, description, low, least, when, until, owner, group, extra)
        return Rows(dict(zip(TABLES["auction"], columns, strict=True)), numbers)

    def _bids(self, rng: np.random.Generator, numbers: Int64Array) -> Rows:
        n = len(numbers)
        epoch = numbers // EPOCH_EVENTS
        newest = epoch * AUCTIONS + AUCTIONS - 1
        hot = rng.integers(0, _HOT_AUCTION, n) > 0
        oldest = np.maximum(newest - _IN_FLIGHT, 0)
        other = oldest + (rng.random(n) * (newest - oldest + 1 + _LEAD)).astype(np.int64)
        auction = np.where(hot, newest // _HOT_STRIDE * _HOT_STRIDE, other) + _FIRST_ID
        hot = rng.integers(0, _HOT_BIDDER, n) > 0
        regular = epoch // _HOT_STRIDE * _HOT_STRIDE + 1
        bidder = np.where(hot, regular, _someone(rng, epoch)) + _FIRST_ID
        price = _price(rng, n)
        by_hot = rng.integers(0, 2, n) > 0
        hot_channel = rng.integers(0, len(_HOT_CHANNELS), n)
        channel = pa.array(
            np.where(by_hot, hot_channel, len(_HOT_CHANNELS) + rng.integers(0, _CHANNELS, n))
        )
        extra = self._plain.draw(rng, _padding(rng, np.full(n, 32), _BID_BYTES))
        columns = (
            pa.array(auction), pa.array(bidder), pa.array(price), self._channels.take(channel),
            self._urls.take(channel), pa.array(self.time_ms(numbers)), extra,
        )  # fmt: skip
        return Rows(dict(zip(TABLES["bid"], columns, strict=True)), numbers)


def _someone(rng: np.random.Generator, epoch: Int64Array) -> Int64Array:
    """Base-0 id of one of the last 1,000 people, or of one of the next 10."""
    people = epoch + 1
    active = np.minimum(people, _ACTIVE_PEOPLE)
    drawn = (rng.random(len(epoch)) * (active + _LEAD)).astype(np.int64)
    return people - active + drawn


def _price(rng: np.random.Generator, n: int) -> Int64Array:
    return np.rint(np.power(10.0, rng.random(n) * 6.0) * 100.0).astype(np.int64)


def _length(text: pa.Array) -> npt.NDArray[np.int32]:
    return pc.utf8_length(text).to_numpy()


def _padding(rng: np.random.Generator, used: npt.NDArray[np.generic], target: int) -> Int64Array:
    """Length of `extra` that makes a row `target` bytes on average, ±20 % of what is left."""
    wanted = np.maximum(target - used.astype(np.int64), 0)
    spread = np.rint(wanted * 0.2).astype(np.int64)
    return (
        wanted - spread + (rng.random(len(wanted)) * (2 * np.maximum(spread, 0))).astype(np.int64)
    )
