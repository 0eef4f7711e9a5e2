"""A client of the pacer, version 1 of docs/pacer-protocol.md. Standard library only, one thread.

    from vickrey_pacer import Candidate, Cost, Pacer, Price, Request, Value

    with Pacer(("pacer.example", 9100), "dsp-1", "s3cret", tls=ssl.create_default_context()) as pacer:
        spring = Candidate("acme", "spring", Value(2_500_000), minimum=Price(1_000_000))  # worth 2.50 CPM
        request = Request(hash_of_bid_request_id, [spring])
        [decision] = pacer.decide([request], deadline_s=0.005)
        if decision.authorised:              # otherwise there is no bid: no answer means no spend
            bid(price=decision.amount)       # Value(micros): the most that the bid may offer
        ...
        pacer.won(decision.token, Cost(1_200_000))  # the display cost 0.0012 of the currency in total
        pacer.lost(other.token)                     # also for every authorised bid that was not sent
        pacer.poll(0.1)                             # whenever idle: settlements, heartbeats, reconnection

To have several batches in flight, call `send` for each and `wait` for each. Decisions that come after
`deadline_s`, or that `wait` does not fetch by then, are never returned: their tokens are settled as lost.
A settlement is repeated, on new connections too, until the server has its result. The queue is in memory.

Amounts are integers of the account's currency: `Value` and `Price` in micros per 1000 impressions, `Cost`
in nanos in total. Times ending in `_s` are seconds. Every exception here is a `PacerError`, apart from
`ValueError` for arguments that no server could accept. A `Pacer` is not safe to share between threads.
"""

from __future__ import annotations

import base64
import random
import socket
import ssl
import struct
import time
from collections import deque, namedtuple
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

VERSION, HEAD_BYTES, FRAME_BYTES_MAX, TOKEN_BYTES = 1, 24, 65_536, 48
AMOUNT_MAX = 10**15  # of amounts per 1000 impressions
HANDSHAKE_S, WRITE_S, PENDING_S = 5.0, 5.0, 0.1
DELAY_S_MIN, DELAY_S_MAX = 0.1, 5.0  # between attempts to connect, before jitter
HELLO, WELCOME, BATCH, DECISIONS, SETTLE, SETTLED, CATALOGUE, HEARTBEAT, ERROR = range(1, 10)
WON, LOST = 1, 2

_HEAD = struct.Struct("<2sBBBBHIQ")  # without the checksum
_CANDIDATE = struct.Struct("<IB3xQQ")
_FIXED = {HELLO: "<4BI", WELCOME: "<BxHIIQQIHHHxxIIII", BATCH: "<IHBx", DECISIONS: "<QHHB3x", SETTLE: "<",
          SETTLED: "<H6x", CATALOGUE: "<QHB5x", HEARTBEAT: "<QH6x", ERROR: "<HH"}
_ENTRY = {BATCH: "<QIHBB", DECISIONS: "<QBBH4x", SETTLE: "<48sQB7x", SETTLED: "<B3x", CATALOGUE: "<IBB3sBBx"}
_LAYOUT = {kind: (struct.Struct(fixed), struct.Struct(_ENTRY.get(kind, "<"))) for kind, fixed in _FIXED.items()}


class PacerError(Exception):
    """Base of this module's exceptions."""


class ProtocolError(PacerError):
    """A frame that contradicts the protocol: the server's fault, or the network's. The connection is closed."""


class NoCredit(PacerError):
    """The server accepts no further frame for now: `poll`, then try again, or do not bid."""


class UnknownCampaign(PacerError):
    """The catalogue has no such campaign (now)."""


class Disconnected(PacerError):
    """There is no connection, or it was lost. `poll`, `flush` and `connect` make a new one."""


class ServerError(Disconnected):
    """The server's last frame: `code` and `text` as in the protocol, `sequence` of the frame at fault or 0."""

    def __init__(self, code: int, text: str, sequence: int) -> None:
        super().__init__(f"error {code}: {text}")
        self.code, self.text, self.sequence = code, text, sequence
        self.permanent = code in (3, 13)  # no common version, denied: retries fail until someone acts


# Why a request was (not) authorised; NO_ANSWER is this client's own: none came in time.
Code = IntEnum("Code", "NO_ANSWER AUTHORISED INVALID UNKNOWN PAUSED OUT_OF_FLIGHT OUT_OF_DAYPART BUDGET_EXHAUSTED "
               "DAY_EXHAUSTED HOUR_EXHAUSTED THROTTLED BELOW_MINIMUM UNAVAILABLE LATE", start=-1)
# What became of a settlement.
Result = IntEnum("Result", "BOOKED BOOKED_LATE RELEASED ALREADY_BOOKED ALREADY_ENDED PENDING REJECTED TOO_OLD INVALID",
                 start=0)
_CODES, _RESULTS = ({member.value: member for member in each} for each in (Code, Result))


@dataclass(frozen=True, order=True)
class _Micros:
    micros: int

    def __post_init__(self) -> None:
        if type(self.micros) is not int or not 0 <= self.micros <= AMOUNT_MAX:
            raise ValueError(f"{self!r}: needs to be an integer from 0 to {AMOUNT_MAX}")


class Value(_Micros):
    """The worth of the impression to the campaign; the pacer chooses the price. Micros per 1000 impressions."""


class Price(_Micros):
    """A price that the pacer cannot change. Micros per 1000 impressions."""

    def cost(self, impressions_millionths: int = 1_000_000) -> Cost:
        """Of one display that counts as so many millionths of an impression, rounded down."""
        return Cost(self.micros * impressions_millionths // 1_000_000)


@dataclass(frozen=True, order=True)
class Cost:
    """Money in total, for one display. Nanos of the account's currency."""

    nanos: int

    def __post_init__(self) -> None:
        if type(self.nanos) is not int or not 0 <= self.nanos < 2**64:
            raise ValueError(f"{self!r}: needs to be an integer of 64 bits without a sign")


_AMOUNTS = (Value, Price, Cost)  # by their number in the protocol


class Campaign(NamedTuple):
    """A row of the catalogue. `state` is the code that a request would get; 0 = it may spend."""

    handle: int
    account: str
    campaign: str
    state: int
    currency: str


class Candidate(NamedTuple):
    """A campaign that could bid. The minimum, for example the floor, is ignored if the amount is a `Cost`."""

    account: str
    campaign: str
    amount: Value | Price | Cost
    minimum: Price = Price(0)


class Request(NamedTuple):
    """A bid request. `id` is any number of 64 bits; lifetime 0 is the server's; impressions 0 = one."""

    id: int
    candidates: Sequence[Candidate]
    impressions_millionths: int = 0
    lifetime_s: int = 0
    test: bool = False


class Decision(NamedTuple):
    """The answer to a request. Unless it is authorised, candidate, amount and token are None.

    `amount` has the class of the chosen candidate's amount, thus its unit. `code` is a `Code`, or a number
    that only a later version knows."""

    code: int
    candidate: int | None = None
    amount: Value | Price | Cost | None = None
    lifetime_s: int = 0
    token: bytes | None = None

    @property
    def authorised(self) -> bool:
        return self.token is not None

    @property
    def token_text(self) -> str:
        """The token in base64url, 64 letters, for the URL of a win notice."""
        return base64.urlsafe_b64encode(self.token or b"").decode()


# The server's limits, in the protocol's order.
Welcome = namedtuple("Welcome", "version credit node epoch generation clock_ns frame_bytes_max requests_max "
                     "candidates_max settlements_max idle_ms lifetime_ms lifetime_ms_max late_window_ms")
# A decoded frame: fields in the protocol's order, without the reserved ones.
Frame = namedtuple("Frame", "kind sequence fixed entries tail")


@dataclass(eq=False)
class Batch:
    """Requests on their way; give it to `Pacer.wait`. `deadline` is on the client's monotonic clock."""

    requests: list[Request]
    deadline: float
    decisions: list[Decision] | None = None  # None until they are answered or given up

    def give_up(self) -> None:
        self.decisions = [Decision(Code.NO_ANSWER)] * len(self.requests)


@dataclass(eq=False)
class Settlement:
    """A win or loss without a result."""

    token: bytes
    cost: Cost
    outcome: int
    due: float = 0.0


_CRC_TABLE = list(range(256))
for _ in range(8):
    _CRC_TABLE = [(crc >> 1) ^ (0x82F63B78 if crc & 1 else 0) for crc in _CRC_TABLE]


def checksum(frame: bytes) -> int:
    """CRC-32C of a frame, apart from the four bytes that hold it."""
    crc, table = 0xFFFFFFFF, _CRC_TABLE
    for byte in frame[:20] + frame[HEAD_BYTES:]:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def encode(kind: int, sequence: int, fixed: tuple = (), entries: Sequence[tuple] = (), tail: bytes = b"") -> bytes:
    """The bytes of a frame. ValueError if a field does not fit its place."""
    head, entry = _LAYOUT[kind]
    head_len, length = HEAD_BYTES + head.size, HEAD_BYTES + head.size + entry.size * len(entries) + len(tail)
    try:
        start = _HEAD.pack(b"VP", VERSION, kind, head_len, entry.size if entries else 0, len(entries), length, sequence)
        rest = head.pack(*fixed) + b"".join(entry.pack(*each) for each in entries) + tail
    except struct.error as error:
        raise ValueError(f"a field is out of range: {error}") from None
    return start + checksum(start + bytes(4) + rest).to_bytes(4, "little") + rest


def frame_length(head: bytes) -> int:
    """The length of the frame that begins with these 24 bytes. ProtocolError unless they are a sound head."""
    magic, version, kind, head_len, block_len, count, length, _ = _HEAD.unpack_from(head)
    if magic != b"VP" or version != VERSION or kind not in _LAYOUT:
        raise ProtocolError(f"magic {magic!r}, version {version}, kind {kind}: not a frame of version {VERSION}")
    fixed, entry = _LAYOUT[kind]
    if head_len < HEAD_BYTES + fixed.size or (count and block_len < entry.size):
        raise ProtocolError(f"kind {kind}: a head of {head_len} bytes or entries of {block_len} are too short")
    if not head_len + count * block_len <= length <= FRAME_BYTES_MAX:
        raise ProtocolError(f"kind {kind}: a length of {length} bytes contradicts its parts or the limit")
    return length


def decode(frame: bytes) -> Frame:
    """Reads one whole frame. ProtocolError if it is malformed."""
    if len(frame) < HEAD_BYTES or len(frame) != frame_length(frame):
        raise ProtocolError(f"{len(frame)} bytes: not the length of the frame")
    _, _, kind, head_len, block_len, count, _, sequence = _HEAD.unpack_from(frame)
    if checksum(frame) != int.from_bytes(frame[20:HEAD_BYTES], "little"):
        raise ProtocolError(f"kind {kind}, sequence {sequence}: wrong checksum")
    fixed, entry = _LAYOUT[kind]
    entries = [entry.unpack_from(frame, head_len + at * block_len) for at in range(count)]
    return Frame(kind, sequence, fixed.unpack_from(frame, HEAD_BYTES), entries, frame[head_len + count * block_len :])


class Pacer:
    """A connection to the pacer, renewed whenever it is lost. See the module's text.

    `campaigns` is the catalogue, by (account, campaign); empty while there is no connection.
    `on_settled(settlement, result)` is told each final result: look out for REJECTED and TOO_OLD."""

    def __init__(self, address: tuple[str, int], client_id: str, secret: str, *, tls: ssl.SSLContext | None = None,
                 on_settled: Callable[[Settlement, int], None] = lambda settlement, result: None,
                 connector: Callable[[], socket.socket] | None = None, clock: Callable[[], float] = time.monotonic,
                 sleep: Callable[[float], None] = time.sleep, jitter: Callable[[], float] = random.random) -> None:
        self._address, self._tls, self._connector = address, tls, connector or self._dial
        self._id, self._secret = client_id.encode(), secret.encode()
        if max(len(self._id), len(self._secret)) > 255:
            raise ValueError("client_id and secret: at most 255 bytes each")
        self._on_settled, self._clock, self._sleep, self._jitter = on_settled, clock, sleep, jitter
        self.campaigns: dict[tuple[str, str], Campaign] = {}
        self.welcome: Welcome | None = None  # None if there is no connection
        self._rows: dict[int, Campaign] = {}  # by handle
        self._socket: socket.socket | None = None
        self._unanswered: dict[int, Batch | list[Settlement]] = {}  # by sequence, in the order of sending
        self._unclaimed: list[Batch] = []  # answered in time, not yet fetched by `wait`
        self._unsettled: dict[bytes, Settlement] = {}
        self._queue: deque[Settlement] = deque()  # the unsettled ones that are in no frame
        self._failures, self._attempt_at, self._error = 0, 0.0, Disconnected("not connected yet")

    def __enter__(self) -> Pacer:
        self.connect()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def connect(self, timeout_s: float = 10.0) -> None:
        """Connects, with a growing delay between attempts. Disconnected or ServerError if all of them fail.
        An attempt that has begun may take 5 s beyond `timeout_s`."""
        if not self._poll_until(lambda: self.welcome is not None, timeout_s):
            raise self._error

    def close(self, timeout_s: float = 1.0) -> None:
        """Releases decisions that nobody fetched, waits for the results of settlements, and disconnects."""
        for batch in self._unclaimed:
            self._release(batch)
        self._unclaimed.clear()
        try:
            if self._socket is not None:
                self.flush(timeout_s)
        except PacerError:
            pass  # The reservations expire by themselves; wins remain in `unsettled`.
        self._drop(Disconnected("closed"))

    @property
    def unsettled(self) -> list[Settlement]:
        """Settlements without a result, for example to store them before the process ends."""
        return list(self._unsettled.values())

    def decide(self, requests: Sequence[Request], deadline_s: float) -> list[Decision]:
        """Sends one batch and waits for its decisions, in order; NO_ANSWER if none came within `deadline_s`.
        Raises as `send` does, except that it waits for credit."""
        end = self._clock() + deadline_s
        while True:
            try:
                return self.wait(self.send(requests, end - self._clock()))
            except NoCredit:
                if self._clock() >= end:
                    raise
                self.poll(end - self._clock())

    def send(self, requests: Sequence[Request], deadline_s: float) -> Batch:
        """Sends a batch without waiting for its decisions. Disconnected, NoCredit or UnknownCampaign if it
        cannot be sent now, ValueError if it exceeds a limit of the protocol or of the welcome."""
        if self.welcome is None:
            raise Disconnected("no connection")
        self._send_settlements()
        self._receive(0.0)  # Credit may have arrived.
        if self._free() <= 0:
            raise NoCredit(f"{len(self._unanswered)} frames unanswered")
        entries, tail = [], b""
        for request in requests:
            if not 1 <= len(request.candidates) <= min(self.welcome.candidates_max, 255):
                raise ValueError(f"{len(request.candidates)} candidates: 1 to {self.welcome.candidates_max}")
            entries.append((request.id, request.impressions_millionths, request.lifetime_s,
                            len(request.candidates), int(request.test)))
            tail += b"".join(map(self._candidate, request.candidates))
        bytes_back = HEAD_BYTES + 16 + len(requests) * (16 + TOKEN_BYTES)  # if all are authorised
        if not 1 <= len(requests) <= self.welcome.requests_max or bytes_back > FRAME_BYTES_MAX:
            raise ValueError(f"{len(requests)} requests: too many or none")
        batch = Batch(list(requests), self._clock() + deadline_s)
        deadline_us = max(1, min(int(deadline_s * 1e6), 2**32 - 1))
        fixed = (deadline_us, len(tail) // _CANDIDATE.size, _CANDIDATE.size)
        self._unanswered[self._write(BATCH, fixed, entries, tail, timeout_s=max(deadline_s, 0.001))] = batch
        return batch

    def wait(self, batch: Batch) -> list[Decision]:
        """The decisions of a batch, in the order of its requests. NO_ANSWER for all if its deadline passes.
        Disconnected or ServerError if the connection ends meanwhile: then do not bid."""
        while batch.decisions is None and self._clock() <= batch.deadline:
            self.poll(batch.deadline - self._clock())
        self._expire()
        if batch in self._unclaimed:
            self._unclaimed.remove(batch)
        return [Decision(Code.NO_ANSWER)] * len(batch.requests) if batch.decisions is None else batch.decisions

    def won(self, token: bytes | str, cost: Cost) -> None:
        """Queues a win at this cost in total. The first win of a token counts. `poll` or `send` sends it."""
        if type(cost) is not Cost:
            raise ValueError(f"{cost!r}: a win needs a Cost, for example Price(...).cost()")
        self._settle(Settlement(_token(token), cost, WON))

    def lost(self, token: bytes | str) -> None:
        """Queues a loss. Report also every authorised bid that was not sent."""
        self._settle(Settlement(_token(token), Cost(0), LOST))

    def flush(self, timeout_s: float) -> int:
        """Polls until every settlement has a result; returns how many have none after `timeout_s`."""
        self._poll_until(lambda: not self._unsettled, timeout_s)
        return len(self._unsettled)

    def poll(self, timeout_s: float) -> None:
        """Does what is due: reconnects, or sends settlements and a heartbeat and handles the frames that come.
        Waits at most `timeout_s` for them. Call it every few seconds at least. Disconnected, ServerError or
        ProtocolError, once, if the connection is lost or cannot be made."""
        if self._socket is None:
            return self._reconnect(timeout_s)
        self._send_settlements()
        beat_at = self._sent_at + self.welcome.idle_ms / 3000
        if self._clock() >= beat_at:
            self._write(HEARTBEAT, (time.time_ns(), 0))
            self._beat_at = self._clock() if self._beat_at is None else self._beat_at
            beat_at = self._sent_at + self.welcome.idle_ms / 3000
        until = min([beat_at] + [each.due for each in list(self._queue)[:1] if self._free() > 0])
        self._receive(max(0.0, min(timeout_s, until - self._clock())))
        self._expire()
        if self._beat_at is not None and self._clock() - self._beat_at > self.welcome.idle_ms / 1000:
            raise self._drop(Disconnected("the server does not answer heartbeats"))

    def _poll_until(self, done: Callable[[], bool], timeout_s: float) -> bool:
        end = self._clock() + timeout_s
        while not done() and self._clock() < end:
            try:
                self.poll(end - self._clock())
            except Disconnected as error:
                if getattr(error, "permanent", False):
                    raise
        return done()

    def _dial(self) -> socket.socket:
        plain = socket.create_connection(self._address, HANDSHAKE_S)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return plain if self._tls is None else self._tls.wrap_socket(plain, server_hostname=self._address[0])

    def _reconnect(self, timeout_s: float) -> None:
        """One attempt, from the socket to the complete catalogue, unless it is not due within `timeout_s`."""
        if getattr(self._error, "permanent", False):
            raise self._error
        delay = max(0.0, self._attempt_at - self._clock())
        self._sleep(min(delay, timeout_s))
        if delay > timeout_s:
            return
        try:
            self._socket = self._connector()
        except OSError as error:
            raise self._drop(Disconnected(f"cannot connect: {error}")) from error
        self._sequence, self._credit, self._buffer, self._beat_at = 0, 0, bytearray(), None
        self._generation, self._ended, self._offered = None, True, None
        self._write(HELLO, (VERSION, VERSION, len(self._id), len(self._secret), FRAME_BYTES_MAX),
                    tail=self._id + self._secret)
        end = self._clock() + HANDSHAKE_S
        while self.welcome is None:
            if self._clock() >= end:
                raise self._drop(Disconnected("no welcome and catalogue in time"))
            self._receive(end - self._clock())
        self._failures = 0
        self._send_settlements()

    def _drop(self, error: PacerError) -> PacerError:
        """Forgets the connection and what belongs to it; returns the error, to be raised."""
        if self._socket is not None:
            self._socket.close()
        for unanswered in self._unanswered.values():
            if isinstance(unanswered, Batch):
                unanswered.give_up()
        self._unanswered.clear()
        self._queue = deque(self._unsettled.values())
        self.campaigns, self._rows, self.welcome, self._socket, self._error = {}, {}, None, None, error
        delay = min(DELAY_S_MAX, DELAY_S_MIN * 2 ** min(self._failures, 10))
        self._failures += 1
        self._attempt_at = self._clock() + delay * (0.5 + self._jitter() / 2)
        return error

    def _free(self) -> int:
        return self._credit - len(self._unanswered)

    def _write(self, kind: int, fixed: tuple = (), entries: Sequence[tuple] = (), tail: bytes = b"",
               timeout_s: float = WRITE_S) -> int:
        """Sends a frame and returns its sequence."""
        frame = encode(kind, self._sequence + 1, fixed, entries, tail)
        if self.welcome is not None and len(frame) > self.welcome.frame_bytes_max:
            raise ValueError(f"{len(frame)} bytes: the server accepts {self.welcome.frame_bytes_max}")
        self._sequence, self._sent_at = self._sequence + 1, self._clock()
        try:
            self._socket.settimeout(timeout_s)
            self._socket.sendall(frame)
        except OSError as error:  # A part of the frame may have left: this connection cannot go on.
            raise self._drop(Disconnected(f"cannot send: {error}")) from error
        return self._sequence

    def _receive(self, timeout_s: float) -> None:
        """Waits for bytes and handles the frames that they complete."""
        try:
            self._socket.settimeout(timeout_s)
            received = self._socket.recv(FRAME_BYTES_MAX)
        except (TimeoutError, BlockingIOError, ssl.SSLWantReadError):
            return
        except OSError as error:
            raise self._drop(Disconnected(f"cannot receive: {error}")) from error
        if not received:
            raise self._drop(Disconnected("the server closed the connection"))
        self._buffer += received
        self._beat_at = None
        try:
            while len(self._buffer) >= HEAD_BYTES and len(self._buffer) >= (length := frame_length(self._buffer)):
                frame = bytes(self._buffer[:length])
                del self._buffer[:length]
                self._handle(decode(frame))
        except ProtocolError as error:
            raise self._drop(error)

    def _handle(self, frame: Frame) -> None:
        if frame.kind == ERROR:
            code, length = frame.fixed
            raise self._drop(ServerError(code, frame.tail[:length].decode(errors="replace"), frame.sequence))
        if (frame.kind == WELCOME) != (self._offered is None) or frame.kind in (HELLO, BATCH, SETTLE):
            raise ProtocolError(f"kind {frame.kind}: not at this point")
        if frame.kind == WELCOME:
            self._offered = Welcome(*frame.fixed)
            self._credit = self._offered.credit
        elif frame.kind == CATALOGUE:
            self._update(frame)
        elif frame.kind == DECISIONS:
            self._decided(frame)
        elif frame.kind == SETTLED:
            self._settled(frame)
        else:
            self._credit = frame.fixed[1]

    def _update(self, frame: Frame) -> None:
        """Applies rows of the catalogue; with the last ones of the first generation the connection is ready."""
        generation, self._credit, flags = frame.fixed
        # Whether each frame of a complete generation has flag 1 or only the first: nothing is voided between.
        if flags & 1 and (self._ended or generation != self._generation):
            self._rows = {}
        self._generation, self._ended = generation, bool(flags & 2)
        if sum(account_len + own_len for *_, account_len, own_len in frame.entries) != len(frame.tail):
            raise ProtocolError("catalogue: the lengths of ids contradict the tail")
        at = 0
        for handle, state, unit, currency, account_len, own_len in frame.entries:
            own_at, at = at + account_len, at + account_len + own_len
            row = self._rows.get(handle)
            if own_len:
                ids = (_text(frame.tail[own_at - account_len : own_at]), _text(frame.tail[own_at:at]))
                # Prices in another unit cannot be expressed.
                row = Campaign(handle, *ids, state, _text(currency)) if unit == 1 else None
            elif row is not None:
                row = row._replace(state=state)
            if row is None or state == Code.UNKNOWN:  # which means removed
                self._rows.pop(handle, None)
            else:
                self._rows[handle] = row
        self.campaigns = {(row.account, row.campaign): row for row in self._rows.values()}
        if self._ended:
            self.welcome = self._offered

    def _candidate(self, candidate: Candidate) -> bytes:
        row = self.campaigns.get((candidate.account, candidate.campaign))
        if row is None:
            raise UnknownCampaign(f"{candidate.account}/{candidate.campaign}")
        if type(candidate.amount) not in _AMOUNTS or type(candidate.minimum) is not Price:
            raise ValueError(f"{candidate}: needs a Value, Price or Cost, and a Price as its minimum")
        (amount,) = vars(candidate.amount).values()
        return _CANDIDATE.pack(row.handle, _AMOUNTS.index(type(candidate.amount)), amount, candidate.minimum.micros)

    def _decided(self, frame: Frame) -> None:
        oldest = next((at for at, each in self._unanswered.items() if isinstance(each, Batch)), None)
        _, self._credit, tokens, token_len = frame.fixed
        if frame.sequence != oldest or len(frame.entries) != len(self._unanswered[oldest].requests):
            raise ProtocolError(f"decisions {frame.sequence}: not an answer to the oldest batch, {oldest}")
        authorised = sum(code == Code.AUTHORISED for _, code, _, _ in frame.entries)
        if token_len != TOKEN_BYTES or tokens != authorised or len(frame.tail) != tokens * TOKEN_BYTES:
            raise ProtocolError(f"decisions {frame.sequence}: {authorised} authorised, {tokens} tokens")
        batch, decisions, at = self._unanswered[oldest], [], 0
        for request, (number, code, chosen, lifetime_s) in zip(batch.requests, frame.entries):
            if code != Code.AUTHORISED:
                decisions.append(Decision(_CODES.get(code, code)))
                continue
            if chosen >= len(request.candidates):
                raise ProtocolError(f"decisions {frame.sequence}: candidate {chosen} was not asked for")
            amount, token = type(request.candidates[chosen].amount), frame.tail[at : at + TOKEN_BYTES]
            try:
                decisions.append(Decision(Code.AUTHORISED, chosen, amount(number), lifetime_s, token))
            except ValueError as error:
                raise ProtocolError(f"decisions {frame.sequence}: {error}") from None
            at += TOKEN_BYTES
        del self._unanswered[oldest]
        batch.decisions = decisions
        self._unclaimed.append(batch)
        self._expire()

    def _expire(self) -> None:
        """Decisions past the client's own deadline are not used: their tokens are lost."""
        now = self._clock()
        for batch in [each for each in self._unclaimed if each.deadline < now]:
            self._unclaimed.remove(batch)
            self._release(batch)

    def _release(self, batch: Batch) -> None:
        for decision in batch.decisions or ():
            if decision.token is not None:
                self.lost(decision.token)
        batch.give_up()

    def _settle(self, settlement: Settlement) -> None:
        earlier = self._unsettled.get(settlement.token)
        if earlier is None or (earlier.outcome, settlement.outcome) == (LOST, WON):
            self._unsettled[settlement.token] = settlement
            self._queue.append(settlement)

    def _send_settlements(self) -> None:
        most = min(self.welcome.settlements_max, (self.welcome.frame_bytes_max - HEAD_BYTES) // 64)
        while self._queue and self._free() > 0 and self._queue[0].due <= self._clock():
            group: list[Settlement] = []
            while self._queue and len(group) < most and self._queue[0].due <= self._clock():
                settlement = self._queue.popleft()
                if self._unsettled.get(settlement.token) is settlement:  # not replaced by a win meanwhile
                    group.append(settlement)
            if group:
                entries = [(each.token, each.cost.nanos, each.outcome) for each in group]
                self._unanswered[self._write(SETTLE, (), entries)] = group

    def _settled(self, frame: Frame) -> None:
        self._credit, group = frame.fixed[0], self._unanswered.get(frame.sequence)
        if not isinstance(group, list) or len(group) != len(frame.entries):
            raise ProtocolError(f"settled {frame.sequence}: answers no settlements")
        del self._unanswered[frame.sequence]
        for settlement, (result,) in zip(group, frame.entries):
            if self._unsettled.get(settlement.token) is not settlement:
                continue
            if result == Result.PENDING:
                settlement.due = self._clock() + PENDING_S
                self._queue.append(settlement)
            else:
                del self._unsettled[settlement.token]
                self._on_settled(settlement, _RESULTS.get(result, result))


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise ProtocolError(f"not UTF-8: {error}") from None


def _token(token: bytes | str) -> bytes:
    raw = base64.urlsafe_b64decode(token) if isinstance(token, str) else token
    if len(raw) != TOKEN_BYTES:
        raise ValueError(f"token of {len(raw)} bytes: needs {TOKEN_BYTES}, or 64 letters in base64url")
    return bytes(raw)
