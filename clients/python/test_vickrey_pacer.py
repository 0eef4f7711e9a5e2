"""Tests of the client: `python3 clients/python/test_vickrey_pacer.py`.

The golden frames come from the protocol's document. The peer is scripted, at the other end of a socketpair;
the clock is a number. So nothing waits."""

import re
import socket
import struct
import unittest
from pathlib import Path

import vickrey_pacer as vp
from vickrey_pacer import Candidate, Code, Cost, Price, Request, Result, Value

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "pacer-protocol.md"
TOKEN = b"a token of 48 bytes: only the server can read it"
OTHER = b"another token of 48 bytes, opaque like the first"
CLOCK_NS = 1_795_000_000_000_000_000


def golden() -> dict[str, bytes]:
    """The frames of the document, by the name of their block."""
    found = re.findall(r"^```text (\w+)\n(.*?)^```", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    return {name: bytes.fromhex(block) for name, block in found}


# What each golden frame says: kind, sequence, fixed part, entries, tail.
MEANING = {
    "hello": (vp.HELLO, 1, (1, 1, 5, 6, 65_536), [], b"dsp-1s3cret"),
    "welcome": (vp.WELCOME, 1, (1, 64, 1, 1_795_000_000, 3, CLOCK_NS, 65_536, 256, 16, 512, 60_000, 15_000,
                                1_800_000, 3_600_000), [], b""),
    "catalogue": (vp.CATALOGUE, 0, (3, 64, 3), [(7, 0, 1, b"USD", 4, 6)], b"acmespring"),
    "batch": (vp.BATCH, 2, (2000, 3, 24), [(1, 0, 15, 1, 0), (2, 0, 0, 2, 0)],
              struct.pack("<" + "IB3xQQ" * 3, *(7, 0, 2_500_000, 1_000_000) * 2, 9, 1, 1_750_000, 0)),
    "decisions": (vp.DECISIONS, 2, (3, 64, 1, 48), [(0, 9, 0, 0), (1_750_000, 0, 1, 15)], TOKEN),
    "settle": (vp.SETTLE, 3, (), [(TOKEN, 1_200_000, 1), (OTHER, 0, 2)], b""),
    "settled": (vp.SETTLED, 3, (64,), [(0,), (2,)], b""),
    "heartbeat": (vp.HEARTBEAT, 4, (CLOCK_NS, 64), [], b""),
    "error": (vp.ERROR, 7, (10, 16), [], b"expected frame 5"),
}


def sealed(frame: bytes) -> bytes:
    """The frame with a right checksum again."""
    return frame[:20] + vp.checksum(frame).to_bytes(4, "little") + frame[24:]


def changed(frame: bytes, at: int, to: bytes) -> bytes:
    return sealed(frame[:at] + to + frame[at + len(to) :])


class Frames(unittest.TestCase):
    def test_golden_frames_encode_and_decode_byte_for_byte(self) -> None:
        self.assertEqual(golden().keys(), MEANING.keys())
        for name, frame in golden().items():
            with self.subTest(name):
                self.assertEqual(vp.encode(*MEANING[name]).hex(" "), frame.hex(" "))
                self.assertEqual(tuple(vp.decode(frame)), MEANING[name])

    def test_malformed_frames_are_refused(self) -> None:
        frame = golden()["decisions"]
        rows = [
            ("magic", changed(frame, 0, b"PV"), "magic"),
            ("version", changed(frame, 2, b"\x02"), "version 2"),
            ("kind", changed(frame, 3, b"\x0a"), "kind 10"),
            ("head too short", changed(frame, 4, b"\x27"), "too short"),
            ("entries too short", changed(frame, 5, b"\x0f"), "too short"),
            ("more entries than bytes", changed(frame, 6, b"\x09\x00"), "contradicts"),
            ("longer than the limit", changed(frame, 8, b"\x01\x00\x01\x00"), "contradicts"),
            ("longer than it is", changed(frame, 8, b"\x79\x00\x00\x00"), "not the length"),
            ("shorter than it is", changed(frame, 8, b"\x77\x00\x00\x00"), "not the length"),
            ("checksum", frame[:20] + b"\x00" + frame[21:], "checksum"),
            ("truncated", frame[:-1], "not the length"),
            ("truncated head", frame[:23], "not the length"),
            ("empty", b"", "not the length"),
        ]
        for name, broken, want in rows:
            with self.subTest(name), self.assertRaisesRegex(vp.ProtocolError, want):
                vp.decode(broken)

    def test_any_altered_byte_is_refused(self) -> None:
        for name, frame in golden().items():
            for at in range(len(frame)):
                with self.subTest(f"{name} at {at}"), self.assertRaises(vp.ProtocolError):
                    vp.decode(frame[:at] + bytes([frame[at] ^ 0x40]) + frame[at + 1 :])

    def test_parts_that_a_later_version_made_longer_are_read(self) -> None:
        frame = bytearray(golden()["settled"])
        frame[24 + 8 : 24 + 8] = b"new!"  # at the end of the fixed part
        frame[36 + 4 : 36 + 4] = frame[44:44] = b"\xff"  # at the end of each entry
        frame[4:6] = bytes([36, 5])
        frame[8] = len(frame)
        self.assertEqual(vp.decode(sealed(bytes(frame)))[2:4], ((64,), [(0,), (2,)]))

    def test_checksum_is_the_published_one(self) -> None:
        # RFC 3720, B.4: 32 bytes of zeroes. The four bytes of the checksum itself are skipped.
        self.assertEqual(vp.checksum(bytes(36)), 0x8A9136AA)

    def test_amounts_keep_their_unit(self) -> None:
        self.assertEqual(Price(2_500_000).cost(), Cost(2_500_000))
        self.assertEqual(Price(1_000_003).cost(2_500_000), Cost(2_500_007))  # rounded down, once
        self.assertNotEqual(Price(1), Value(1))
        self.assertNotEqual(Price(1), Cost(1))
        for refused in [lambda: Price(1.5), lambda: Value(-1), lambda: Price(10**15 + 1), lambda: Cost(2**64)]:
            self.assertRaises(ValueError, refused)


class Clock:
    """Time that passes only when a test, or the client's sleep, says so."""

    def __init__(self) -> None:
        self.now, self.slept = 100.0, []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def ids(handle: int, account: str, campaign: str, state: int = 0, unit: int = 1) -> tuple[tuple, bytes]:
    """An entry of the catalogue and its part of the tail."""
    return (handle, state, unit, b"USD", len(account), len(campaign)), (account + campaign).encode()


SPRING, SUMMER = ids(7, "acme", "spring"), ids(9, "acme", "summer")


class Peer:
    """The server's end of each connection. What it sends waits in the socket until the client reads it."""

    def __init__(self, test: unittest.TestCase, credit: int = 64, **welcome: int) -> None:
        self.test, self.credit, self.clock, self.refuse = test, credit, Clock(), 0
        self.welcome = vp.Welcome(*MEANING["welcome"][2])._replace(credit=credit, **welcome)
        self.connections, self.settled = 0, []
        self.socket: socket.socket | None = None
        self.pacer = vp.Pacer(
            ("unused", 0), "dsp-1", "s3cret", connector=self.connect, clock=self.clock, sleep=self.clock.sleep,
            jitter=lambda: 1.0, on_settled=lambda each, result: self.settled.append((each.outcome, result)))
        test.addCleanup(lambda: self.socket and self.socket.close())
        test.addCleanup(self.hang_up)

    def hang_up(self) -> None:
        if self.pacer._socket is not None:
            self.pacer._socket.close()

    def connect(self) -> socket.socket:
        if self.refuse:
            self.refuse -= 1
            raise ConnectionRefusedError("refused")
        if self.socket is not None:
            self.socket.close()
        self.connections += 1
        self.socket, client = socket.socketpair()
        self.socket.setblocking(False)
        self.send(vp.WELCOME, 1, tuple(self.welcome))
        self.catalogue([SPRING, SUMMER])
        return client

    def send(self, *parts: object) -> None:
        self.socket.sendall(vp.encode(*parts))

    def catalogue(self, rows: list, flags: int = 3, generation: int = 3) -> None:
        entries, tails = [row[0] for row in rows], b"".join(row[1] for row in rows)
        self.send(vp.CATALOGUE, 0, (generation, self.credit, flags), entries, tails)

    def decide(self, sequence: int, entries: list[tuple], tokens: bytes = b"", credit: int | None = None) -> None:
        fixed = (3, self.credit if credit is None else credit, len(tokens) // 48, 48)
        self.send(vp.DECISIONS, sequence, fixed, entries, tokens)

    def frames(self) -> list[vp.Frame]:
        """What the client has sent since the last call."""
        try:
            raw, frames = self.socket.recv(1 << 20), []
        except BlockingIOError:
            return []
        while raw:
            length = vp.frame_length(raw)
            frames.append(vp.decode(raw[:length]))
            raw = raw[length:]
        return frames

    def connected(self) -> vp.Pacer:
        self.pacer.connect()
        [hello] = self.frames()
        self.test.assertEqual(tuple(hello), MEANING["hello"])
        return self.pacer


SPRING_FOR_A_VALUE = Candidate("acme", "spring", Value(2_500_000), Price(1_000_000))
SUMMER_FOR_A_PRICE = Candidate("acme", "summer", Price(1_750_000))
ONE = [Request(1, [SPRING_FOR_A_VALUE])]
YES, NO = (2_000_000, 0, 0, 15), (0, 9, 0, 0)


def token(number: int) -> bytes:
    return bytes([number]) * 48


class Sessions(unittest.TestCase):
    def test_a_batch_is_the_golden_one_and_its_decisions_carry_their_units(self) -> None:
        peer = Peer(self)
        pacer = peer.connected()
        both = [SPRING_FOR_A_VALUE, SUMMER_FOR_A_PRICE]
        requests = [Request(1, both[:1], lifetime_s=15), Request(2, both)]
        batch = pacer.send(requests, 0.002)
        self.assertEqual(vp.encode(*peer.frames()[0]), golden()["batch"])
        peer.socket.sendall(golden()["decisions"])
        refused, authorised = pacer.wait(batch)
        self.assertEqual(refused, vp.Decision(Code.THROTTLED))
        self.assertEqual(authorised, vp.Decision(Code.AUTHORISED, 1, Price(1_750_000), 15, TOKEN))
        self.assertEqual((refused.authorised, authorised.authorised), (False, True))
        pacer.won(authorised.token_text, Cost(1_200_000))  # as it comes back in a URL
        pacer.poll(0)
        self.assertEqual(peer.frames()[0], (vp.SETTLE, 3, (), [(TOKEN, 1_200_000, 1)], b""))

    def test_the_amount_comes_back_in_the_class_of_its_candidate(self) -> None:
        for amount in [Value(5), Price(5), Cost(5)]:
            peer = Peer(self)
            pacer = peer.connected()
            batch = pacer.send([Request(1, [Candidate("acme", "spring", amount)])], 1.0)
            peer.decide(2, [(5, 0, 0, 15)], TOKEN)
            [decision] = pacer.wait(batch)
            self.assertEqual(decision.amount, amount)

    def test_answers_are_matched_by_sequence(self) -> None:
        peer = Peer(self)
        pacer = peer.connected()
        pacer.won(token(1), Cost(1))
        first, second = pacer.send(ONE, 1.0), pacer.send(ONE, 1.0)
        self.assertEqual([(each.kind, each.sequence) for each in peer.frames()],
                         [(vp.SETTLE, 2), (vp.BATCH, 3), (vp.BATCH, 4)])
        peer.decide(3, [NO])
        peer.decide(4, [YES], TOKEN)
        self.assertEqual(pacer.wait(second)[0].amount, Value(2_000_000))
        self.assertEqual(pacer.wait(first), [vp.Decision(Code.THROTTLED)])
        self.assertEqual(len(pacer.unsettled), 1)
        peer.send(vp.SETTLED, 2, (64,), [(1,)])
        pacer.poll(0)
        self.assertEqual((pacer.unsettled, peer.settled), ([], [(vp.WON, Result.BOOKED_LATE)]))

    def test_a_frame_in_pieces_is_put_together(self) -> None:
        peer = Peer(self)
        pacer = peer.connected()
        batch = pacer.send(ONE, 1.0)
        frame = vp.encode(vp.DECISIONS, 2, (3, 64, 1, 48), [YES], TOKEN)
        for at in range(len(frame)):
            self.assertIsNone(batch.decisions)
            peer.socket.sendall(frame[at : at + 1])
            pacer.poll(0)
        self.assertTrue(pacer.wait(batch)[0].authorised)

    def test_decisions_that_contradict_the_batch_end_the_connection_and_authorise_nothing(self) -> None:
        rows = [
            ("another sequence", 9, [YES], TOKEN, "not an answer"),
            ("too few", 2, [], b"", "not an answer"),
            ("a token too few", 2, [YES], b"", "tokens"),
            ("a token too many", 2, [NO], TOKEN, "tokens"),
            ("half a token", 2, [YES], TOKEN[:24], "tokens"),
            ("a candidate that was not asked for", 2, [(5, 0, 1, 15)], TOKEN, "not asked for"),
            ("a price out of range", 2, [(10**15 + 1, 0, 0, 15)], TOKEN, "integer"),
        ]
        for name, sequence, entries, tokens, want in rows:
            with self.subTest(name):
                peer = Peer(self)
                pacer = peer.connected()
                batch = pacer.send(ONE, 1.0)
                peer.decide(sequence, entries, tokens)
                with self.assertRaisesRegex(vp.ProtocolError, want):
                    pacer.wait(batch)
                self.assertEqual(pacer.wait(batch), [vp.Decision(Code.NO_ANSWER)])
                self.assertIsNone(pacer.welcome)

    def test_what_no_server_accepts_is_refused_before_it_is_sent(self) -> None:
        peer = Peer(self)
        pacer = peer.connected()
        rows = [
            ([], ValueError),
            ([Request(1, [])], ValueError),
            ([Request(1, [SPRING_FOR_A_VALUE] * 17)], ValueError),
            (ONE * 257, ValueError),
            ([Request(1, [SPRING_FOR_A_VALUE] * 16)] * 256, ValueError),  # longer than the longest frame
            ([Request(2**64, [SPRING_FOR_A_VALUE])], ValueError),
            ([Request(1, [SPRING_FOR_A_VALUE._replace(minimum=Cost(1))])], ValueError),
            ([Request(1, [SPRING_FOR_A_VALUE._replace(campaign="winter")])], vp.UnknownCampaign),
        ]
        for requests, error in rows:
            self.assertRaises(error, pacer.send, requests, 1.0)
        self.assertRaises(ValueError, pacer.won, TOKEN, Price(1))
        self.assertRaises(ValueError, pacer.lost, TOKEN[1:])
        pacer.send(ONE, 1.0)
        self.assertEqual([each.sequence for each in peer.frames()], [2], "a refusal leaves no hole")


    def test_decisions_that_would_exceed_the_clients_longest_frame_are_not_asked_for(self) -> None:
        pacer = Peer(self, requests_max=65_535, frame_bytes_max=2**24).connected()
        pacer.send(ONE * 1023, 1.0)
        self.assertRaises(ValueError, pacer.send, ONE * 1024, 1.0)


class Catalogues(unittest.TestCase):
    def check(self, frames: list[tuple], want: dict[str, tuple[int, int]]) -> None:
        """After these frames (rows, flags, generation), campaigns have these handles and states."""
        peer = Peer(self)
        pacer = peer.connected()
        for rows, flags, generation in frames:
            peer.catalogue(rows, flags, generation)
            pacer.poll(0)
        found = {row.campaign: (row.handle, row.state) for row in pacer.campaigns.values()}
        self.assertEqual(found, want)

    def test_rows_are_kept_up_to_date(self) -> None:
        spring, summer = {"spring": (7, 0)}, {"summer": (9, 0)}
        self.check([], spring | summer)
        self.check([([ids(7, "acme", "", state=6)], 2, 4)], {"spring": (7, 6)} | summer)
        self.check([([ids(7, "", "", state=6)], 2, 4)], {"spring": (7, 6)} | summer)
        self.check([([ids(7, "", "", state=2)], 2, 4)], summer)
        self.check([([ids(8, "", "", state=6)], 2, 4)], spring | summer)  # a state of nobody
        self.check([([ids(8, "acme", "winter")], 2, 4)], spring | summer | {"winter": (8, 0)})
        self.check([([ids(8, "acme", "winter", unit=2)], 2, 4)], spring | summer)
        # Removed and added again under another handle, in both orders.
        self.check([([ids(7, "", "", state=2), ids(10, "acme", "spring")], 2, 4)], {"spring": (10, 0)} | summer)
        self.check([([ids(10, "acme", "spring"), ids(7, "", "", state=2)], 2, 4)], {"spring": (10, 0)} | summer)
        # A complete catalogue in two frames, flag 1 on the first or on both.
        self.check([([SPRING], 1, 4), ([ids(8, "acme", "winter")], 2, 4)], spring | {"winter": (8, 0)})
        self.check([([SPRING], 1, 4), ([ids(8, "acme", "winter")], 3, 4)], spring | {"winter": (8, 0)})
        self.check([([], 3, 4)], {})

    def test_rows_say_account_and_currency(self) -> None:
        pacer = Peer(self).connected()
        self.assertEqual(pacer.campaigns["acme", "spring"], vp.Campaign(7, "acme", "spring", 0, "USD"))

    def test_ids_that_contradict_the_tail_end_the_connection(self) -> None:
        for entry, tail, want in [(SPRING[0], b"acme", "tail"), (SPRING[0], b"acme\xffpring", "UTF-8")]:
            peer = Peer(self)
            pacer = peer.connected()
            peer.send(vp.CATALOGUE, 0, (4, 64, 2), [entry], tail)
            with self.assertRaisesRegex(vp.ProtocolError, want):
                pacer.poll(0)


class Credit(unittest.TestCase):
    def test_never_more_unanswered_frames_than_granted(self) -> None:
        peer = Peer(self, credit=2)
        pacer = peer.connected()
        batches = [pacer.send(ONE, 1.0), pacer.send(ONE, 1.0)]
        pacer.won(token(1), Cost(1))
        self.assertRaises(vp.NoCredit, pacer.send, ONE, 1.0)
        pacer.poll(0)
        self.assertEqual([each.kind for each in peer.frames()], [vp.BATCH] * 2)
        # An answer makes room for one frame, and the settlement that waits takes it.
        peer.decide(2, [NO])
        pacer.wait(batches[0])
        self.assertRaises(vp.NoCredit, pacer.send, ONE, 1.0)
        self.assertEqual([each.kind for each in peer.frames()], [vp.SETTLE])
        # A lower credit counts at once.
        peer.decide(3, [NO], credit=1)
        pacer.wait(batches[1])
        self.assertRaises(vp.NoCredit, pacer.send, ONE, 1.0)
        peer.send(vp.SETTLED, 4, (1,), [(0,)])
        pacer.send(ONE, 1.0)
        self.assertEqual([each.sequence for each in peer.frames()], [5])

    def test_without_credit_only_heartbeats_are_sent(self) -> None:
        peer = Peer(self, credit=1)
        pacer = peer.connected()
        batch = pacer.send(ONE, 1.0)
        peer.decide(2, [NO], credit=0)
        pacer.wait(batch)
        pacer.lost(token(1))
        peer.clock.now += 20.0  # a third of idle_ms
        pacer.poll(0)
        self.assertEqual([(each.kind, each.sequence) for each in peer.frames()], [(vp.BATCH, 2), (vp.HEARTBEAT, 3)])
        peer.send(vp.HEARTBEAT, 0, (CLOCK_NS, 1))
        pacer.poll(0)
        pacer.poll(0)
        self.assertEqual([(each.kind, each.sequence) for each in peer.frames()], [(vp.SETTLE, 4)])

    def test_the_newest_credit_counts_whatever_frame_carries_it(self) -> None:
        for kind, sequence, fixed, entries in [
            (vp.SETTLED, 2, (0,), [(0,)]),
            (vp.DECISIONS, 3, (3, 0, 0, 48), [NO]),
            (vp.CATALOGUE, 0, (4, 0, 2), []),
            (vp.HEARTBEAT, 0, (CLOCK_NS, 0), []),
        ]:
            peer = Peer(self)
            pacer = peer.connected()
            pacer.lost(token(1))
            pacer.send(ONE, 1.0)
            peer.send(kind, sequence, fixed, entries)
            self.assertRaises(vp.NoCredit, pacer.send, ONE, 1.0)

    def test_decide_waits_for_credit(self) -> None:
        peer = Peer(self, credit=0)
        pacer = peer.connected()
        pacer._socket = Wire(pacer._socket, [
            None,  # no credit yet
            lambda: peer.send(vp.HEARTBEAT, 0, (CLOCK_NS, 1)),
            None,  # nothing else has come before the batch
            lambda: peer.decide(2, [YES], TOKEN),
        ])
        [decision] = pacer.decide(ONE, 1.0)
        self.assertEqual(decision.token, TOKEN)

    def test_decide_gives_up_at_its_deadline(self) -> None:
        peer = Peer(self, credit=0)
        pacer = peer.connected()

        def pass_time() -> None:
            peer.clock.now += 0.002
            peer.send(vp.HEARTBEAT, 0, (CLOCK_NS, 0))

        pacer._socket = Wire(pacer._socket, [None, pass_time])
        self.assertRaises(vp.NoCredit, pacer.decide, ONE, 0.001)
        self.assertEqual(peer.frames(), [])


class Wire:
    """A client's socket that runs the next of these steps before each read; without steps it reads nothing."""

    def __init__(self, inner: socket.socket, steps: list) -> None:
        self._inner, self._steps = inner, steps

    def recv(self, most: int) -> bytes:
        if not self._steps:
            raise BlockingIOError
        step = self._steps.pop(0)
        if step is None:
            raise BlockingIOError
        step()
        return self._inner.recv(most)

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)


class Deadlines(unittest.TestCase):
    def check_released(self, peer: Peer, tokens: list[bytes]) -> None:
        """The client settles these tokens as lost, and no others."""
        peer.pacer.poll(0)
        found = [entry for frame in peer.frames() if frame.kind == vp.SETTLE for entry in frame.entries]
        self.assertEqual(found, [(each, 0, vp.LOST) for each in tokens])

    def test_decisions_that_arrive_late_are_not_used_and_their_tokens_are_lost(self) -> None:
        peer = Peer(self)
        pacer = peer.connected()
        batch = pacer.send(ONE * 3, 0.010)
        peer.clock.now += 0.011
        self.assertEqual(pacer.wait(batch), [vp.Decision(Code.NO_ANSWER)] * 3)
        peer.decide(2, [YES, NO, YES], token(1) + token(2))
        pacer.poll(0)
        self.assertEqual(pacer.wait(batch), [vp.Decision(Code.NO_ANSWER)] * 3)
        self.check_released(peer, [token(1), token(2)])

    def test_decisions_at_the_deadline_are_used(self) -> None:
        peer = Peer(self)
        pacer = peer.connected()
        batch = pacer.send(ONE, 0.25)
        peer.clock.now += 0.25
        peer.decide(2, [YES], TOKEN)
        pacer.poll(0)
        self.assertTrue(pacer.wait(batch)[0].authorised)
        self.check_released(peer, [])
        peer.clock.now += 1.0
        pacer.poll(0)
        self.check_released(peer, [])  # They were fetched in time.

    def test_decisions_in_time_that_nobody_fetches_in_time_are_lost(self) -> None:
        peer = Peer(self)
        pacer = peer.connected()
        batches = [pacer.send(ONE, 0.010), pacer.send(ONE, 0.020)]
        peer.decide(2, [YES], token(1))
        peer.decide(3, [YES], token(2))
        pacer.poll(0)
        peer.clock.now += 0.015
        self.assertEqual(pacer.wait(batches[0]), [vp.Decision(Code.NO_ANSWER)])
        self.assertEqual(pacer.wait(batches[1])[0].token, token(2))
        self.check_released(peer, [token(1)])

    def test_close_releases_what_nobody_fetched(self) -> None:
        peer = Peer(self)
        pacer = peer.connected()
        pacer.send(ONE, 1.0)
        peer.decide(2, [YES], token(1))
        pacer.poll(0)
        peer.send(vp.SETTLED, 3, (64,), [(2,)])
        pacer.close()
        self.assertEqual(peer.settled, [(vp.LOST, Result.RELEASED)])
        self.assertIsNone(pacer.welcome)


class Settlements(unittest.TestCase):
    def settles(self, peer: Peer) -> list[list[tuple]]:
        return [frame.entries for frame in peer.frames() if frame.kind == vp.SETTLE]

    def test_unanswered_settlements_are_repeated_after_a_reconnection(self) -> None:
        peer = Peer(self)
        pacer = peer.connected()
        pacer.won(token(1), Cost(11))
        pacer.lost(token(2))
        pacer.poll(0)
        pacer.won(token(3), Cost(33))
        pacer.poll(0)
        self.assertEqual(self.settles(peer), [[(token(1), 11, 1), (token(2), 0, 2)], [(token(3), 33, 1)]])
        peer.send(vp.SETTLED, 3, (64,), [(0,)])  # Only the second frame has its result.
        pacer.poll(0)
        peer.socket.close()
        self.assertRaises(vp.Disconnected, pacer.poll, 0)
        self.assertRaises(vp.Disconnected, pacer.send, ONE, 1.0)
        self.assertEqual(pacer.campaigns, {})
        pacer.connect()
        hello, settle = peer.frames()
        self.assertEqual((hello.kind, hello.sequence, settle.sequence), (vp.HELLO, 1, 2))
        self.assertEqual(settle.entries, [(token(1), 11, 1), (token(2), 0, 2)])
        peer.send(vp.SETTLED, 2, (64,), [(3,), (4,)])
        self.assertEqual(pacer.flush(1.0), 0)
        pacer.poll(0)
        self.assertEqual(self.settles(peer), [], "a result ends the repetition")
        self.assertEqual(peer.settled, [(1, Result.BOOKED), (1, Result.ALREADY_BOOKED), (2, Result.ALREADY_ENDED)])

    def test_a_batch_in_flight_is_forgotten_when_the_connection_is_lost(self) -> None:
        peer = Peer(self)
        pacer = peer.connected()
        batch = pacer.send(ONE, 10.0)
        peer.socket.close()
        self.assertRaises(vp.Disconnected, pacer.wait, batch)
        self.assertEqual(pacer.wait(batch), [vp.Decision(Code.NO_ANSWER)])
        pacer.connect()
        self.assertEqual([each.kind for each in peer.frames()], [vp.HELLO])

    def test_attempts_wait_longer_and_longer_by_chance(self) -> None:
        for jitter, share in [(1.0, 1.0), (0.0, 0.5)]:
            peer = Peer(self)
            peer.pacer._jitter = lambda: jitter
            peer.connected()
            peer.refuse = 8
            peer.socket.close()
            self.assertRaises(vp.Disconnected, peer.pacer.poll, 0)
            peer.pacer.connect(60.0)
            delays = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]
            for found, want in zip(peer.clock.slept[-9:], delays, strict=True):
                self.assertAlmostEqual(found, want * share)
            self.assertEqual(peer.connections, 2)
            # A connection that succeeded starts over.
            peer.socket.close()
            self.assertRaises(vp.Disconnected, peer.pacer.poll, 0)
            peer.pacer.connect()
            self.assertAlmostEqual(peer.clock.slept[-1], 0.1 * share)

    def test_connect_gives_up(self) -> None:
        peer = Peer(self)
        peer.refuse = 1000
        with self.assertRaisesRegex(vp.Disconnected, "refused"):
            peer.pacer.connect(10.0)
        self.assertAlmostEqual(sum(peer.clock.slept), 10.0)

    def test_pending_ones_are_sent_again_later(self) -> None:
        peer = Peer(self)
        pacer = peer.connected()
        pacer.won(token(1), Cost(11))
        pacer.poll(0)
        peer.send(vp.SETTLED, 2, (64,), [(Result.PENDING,)])
        pacer.poll(0)
        pacer.poll(0)
        self.assertEqual(self.settles(peer), [[(token(1), 11, 1)]])
        peer.clock.now += 1.0
        pacer.poll(0)
        self.assertEqual(self.settles(peer), [[(token(1), 11, 1)]])
        self.assertEqual((len(pacer.unsettled), peer.settled), (1, []))

    def test_a_win_replaces_a_loss_and_the_first_win_stays(self) -> None:
        rows = [
            (["lost", "won"], [(token(1), 1, 1)]),
            (["won", "lost"], [(token(1), 0, 1)]),
            (["won", "won"], [(token(1), 0, 1)]),
            (["lost", "lost"], [(token(1), 0, 2)]),
        ]
        for outcomes, want in rows:
            peer = Peer(self)
            pacer = peer.connected()
            for at, outcome in enumerate(outcomes):
                pacer.won(token(1), Cost(at)) if outcome == "won" else pacer.lost(token(1))
            pacer.poll(0)
            self.assertEqual(self.settles(peer), [want], outcomes)

    def test_the_result_of_a_replaced_loss_does_not_end_the_win(self) -> None:
        peer = Peer(self)
        pacer = peer.connected()
        pacer.lost(token(1))
        pacer.poll(0)
        pacer.won(token(1), Cost(5))
        peer.send(vp.SETTLED, 2, (64,), [(2,)])
        pacer.poll(0)
        self.assertEqual([each.outcome for each in pacer.unsettled], [vp.WON])
        self.assertEqual(len(self.settles(peer)), 2)

    def test_frames_hold_no_more_than_the_welcome_allows(self) -> None:
        peer = Peer(self)
        pacer = peer.connected()
        for number in range(700):
            pacer.lost(number.to_bytes(48, "little"))
        pacer.poll(0)
        self.assertEqual([len(each) for each in self.settles(peer)], [512, 188])

    def test_results_without_a_question_end_the_connection(self) -> None:
        for sequence, results in [(9, [(0,)]), (2, [(0,), (0,)]), (3, [(0,)])]:
            peer = Peer(self)
            pacer = peer.connected()
            pacer.lost(token(1))
            pacer.send(ONE, 1.0)
            peer.send(vp.SETTLED, sequence, (64,), results)
            self.assertRaises(vp.ProtocolError, pacer.poll, 0)
            self.assertEqual(len(pacer.unsettled), 1)


class Errors(unittest.TestCase):
    def test_the_servers_error_is_an_exception_with_code_and_text(self) -> None:
        peer = Peer(self)
        pacer = peer.connected()
        peer.socket.sendall(golden()["error"])
        with self.assertRaises(vp.ServerError) as caught:
            pacer.poll(0)
        error = caught.exception
        self.assertEqual((error.code, error.text, error.sequence), (10, "expected frame 5", 7))
        pacer.connect()  # The next connection may do better.
        self.assertEqual(peer.connections, 2)

    def test_a_denied_client_does_not_retry(self) -> None:
        peer = Peer(self)
        peer.connected()
        peer.send(vp.ERROR, 1, (13, 0))
        self.assertRaises(vp.ServerError, peer.pacer.poll, 0)
        for retry in [lambda: peer.pacer.connect(1000.0), lambda: peer.pacer.poll(9), lambda: peer.pacer.connect()]:
            with self.assertRaises(vp.ServerError) as caught:
                retry()
            self.assertEqual(caught.exception.code, 13)
        self.assertEqual((peer.connections, peer.clock.slept), (1, [0.0]))

    def test_a_broken_frame_ends_the_connection(self) -> None:
        heartbeat = golden()["heartbeat"]
        for broken in [b"HTTP/1.1 400 Bad Request", heartbeat[:30] + b"!" + heartbeat[31:], golden()["welcome"],
                       golden()["batch"]]:
            peer = Peer(self)
            pacer = peer.connected()
            peer.socket.sendall(broken)
            self.assertRaises(vp.ProtocolError, pacer.poll, 0)
            self.assertIsNone(pacer.welcome)

    def test_a_server_that_does_not_answer_heartbeats_is_left(self) -> None:
        peer = Peer(self)
        pacer = peer.connected()
        for seconds in [21.0, 60.0]:
            peer.clock.now += seconds
            pacer.poll(0)
        self.assertEqual([each.kind for each in peer.frames()], [vp.HEARTBEAT] * 2)
        peer.send(vp.HEARTBEAT, 2, (CLOCK_NS, 64))
        pacer.poll(0)  # It answered after all.
        for seconds in [21.0, 60.0]:
            peer.clock.now += seconds
            pacer.poll(0)
        peer.clock.now += 1.0
        with self.assertRaisesRegex(vp.Disconnected, "heartbeats"):
            pacer.poll(0)


if __name__ == "__main__":
    unittest.main()
