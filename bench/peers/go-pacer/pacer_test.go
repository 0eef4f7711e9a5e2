package main

import (
	"bufio"
	"encoding/binary"
	"math"
	"net"
	"sync"
	"testing"
	"time"
)

// A client over a loopback socket.
type client struct {
	t        *testing.T
	conn     net.Conn
	reader   *bufio.Reader
	sequence uint64
}

// start runs a pacer, and connects a client that has read welcome and catalogue.
func start(t *testing.T, options options) (*pacer, *client) {
	t.Helper()
	p, address := listen(t, options)
	c := dial(t, address)
	c.send(kindHello, []byte{1, 1, 5, 6, 0, 0, 1, 0}, 0, nil, []byte("dsp-1s3cret"))
	welcome := c.receive(kindWelcome, 1)
	if got := binary.LittleEndian.Uint16(welcome[26:]); got != credit {
		t.Fatalf("credit %d", got)
	}
	c.receive(kindCatalogue, 0)
	return p, c
}

func listen(t *testing.T, options options) (*pacer, string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	p := newPacer(options)
	go accept(listener, p)
	return p, listener.Addr().String()
}

func dial(t *testing.T, address string) *client {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(time.Minute))
	return &client{t: t, conn: conn, reader: bufio.NewReader(conn)}
}

// send writes a frame; entries are as many as this length goes into them.
func (c *client) send(kind byte, fixed []byte, entryLen int, entries, tail []byte) {
	c.t.Helper()
	count := 0
	if entryLen > 0 {
		count = len(entries) / entryLen
	}
	c.sequence++
	frame, fixedPart, entryPart := begin(nil, kind, c.sequence, len(fixed), entryLen, count)
	copy(fixedPart, fixed)
	copy(entryPart, entries)
	if _, err := c.conn.Write(seal(append(frame, tail...))); err != nil {
		c.t.Fatal(err)
	}
}

// receive reads a frame of this kind and sequence, and returns all its bytes.
func (c *client) receive(kind byte, sequence uint64) []byte {
	c.t.Helper()
	head, err := c.reader.Peek(headBytes)
	if err != nil {
		c.t.Fatal(err)
	}
	whole := make([]byte, binary.LittleEndian.Uint32(head[8:]))
	for at := 0; at < len(whole); {
		n, err := c.reader.Read(whole[at:])
		if err != nil {
			c.t.Fatal(err)
		}
		at += n
	}
	if checksum(whole) != binary.LittleEndian.Uint32(whole[checksumAt:]) {
		c.t.Fatal("wrong checksum")
	}
	if whole[3] != kind || binary.LittleEndian.Uint64(whole[12:]) != sequence {
		c.t.Fatalf("kind %d, sequence %d, want %d, %d: %q", whole[3], binary.LittleEndian.Uint64(whole[12:]), kind, sequence, whole[28:])
	}
	return whole
}

type wish struct {
	handle          uint32
	kind            byte
	amount, minimum uint64
}

type request struct {
	id          uint64
	impressions uint32
	candidates  []wish
}

type decision struct {
	price     uint64
	code      byte
	candidate byte
}

const aMinuteMicros = 60_000_000

// batch sends requests and returns their decisions and the tokens of those authorised.
func (c *client) batch(deadlineMicros uint32, requests ...request) ([]decision, [][]byte) {
	c.t.Helper()
	var entries, tail []byte
	candidates := 0
	for _, r := range requests {
		entries = binary.LittleEndian.AppendUint64(entries, r.id)
		entries = binary.LittleEndian.AppendUint32(entries, r.impressions)
		entries = append(entries, 0, 0, byte(len(r.candidates)), 0)
		candidates += len(r.candidates)
		for _, w := range r.candidates {
			tail = binary.LittleEndian.AppendUint32(tail, w.handle)
			tail = append(tail, w.kind, 0, 0, 0)
			tail = binary.LittleEndian.AppendUint64(tail, w.amount)
			tail = binary.LittleEndian.AppendUint64(tail, w.minimum)
		}
	}
	fixed := binary.LittleEndian.AppendUint32(nil, deadlineMicros)
	fixed = binary.LittleEndian.AppendUint16(fixed, uint16(candidates))
	c.send(kindBatch, append(fixed, candidateBytes, 0), batchEntry, entries, tail)

	whole := c.receive(kindDecisions, c.sequence)
	rest := whole[headBytes+decisionsFixed:]
	var decisions []decision
	for range requests {
		decisions = append(decisions, decision{binary.LittleEndian.Uint64(rest), rest[8], rest[9]})
		rest = rest[decisionEntry:]
	}
	var tokens [][]byte
	for range binary.LittleEndian.Uint16(whole[34:]) {
		tokens = append(tokens, rest[:tokenBytes])
		rest = rest[tokenBytes:]
	}
	if len(rest) != 0 {
		c.t.Fatalf("%d bytes after the tokens", len(rest))
	}
	return decisions, tokens
}

// settle sends one settlement and returns its result.
func (c *client) settle(token []byte, outcome byte, cost uint64) byte {
	c.t.Helper()
	entry := binary.LittleEndian.AppendUint64(append([]byte(nil), token...), cost)
	c.send(kindSettle, nil, settleEntry, append(entry, outcome, 0, 0, 0, 0, 0, 0, 0), nil)
	return c.receive(kindSettled, c.sequence)[headBytes+settledFixed]
}

func usual() options { return options{campaigns: 3, budget: 1_000, account: "acme"} }

func (p *pacer) books(handle uint32) (reserved, spent int64) {
	c := p.campaign(handle)
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.reserved, c.spent
}

func TestABatchIsDecidedAndSettled(t *testing.T) {
	p, c := start(t, usual())
	decisions, tokens := c.batch(aMinuteMicros,
		request{1, 0, []wish{{1, amountValue, 600, 500}}},
		request{2, 0, []wish{{1, amountValue, 600, 500}}},                               // 400 are left
		request{3, 0, []wish{{1, amountPrice, 600, 0}, {1, amountPrice, 300, 0}}},       // the second
		request{4, 2_500_000, []wish{{2, amountCost, 101, 9}, {3, amountValue, 41, 0}}}, // 101 nanos are 40 CPM
	)
	want := []decision{{600, codeAuthorised, 0}, {0, codeBudgetExhausted, 0}, {300, codeAuthorised, 1}, {41, codeAuthorised, 1}}
	for i := range want {
		if decisions[i] != want[i] {
			t.Errorf("request %d: %v, want %v", i+1, decisions[i], want[i])
		}
	}
	if len(tokens) != 3 {
		t.Fatalf("%d tokens", len(tokens))
	}
	if reserved, _ := p.books(3); reserved != 102 { // 41 × 2.5, rounded down
		t.Errorf("reserved %d", reserved)
	}
	forged := append([]byte(nil), tokens[0]...)
	forged[8]++
	rows := []struct {
		token   []byte
		outcome byte
		cost    uint64
		want    byte
	}{
		{forged, outcomeWon, 500, resultRejected},
		{tokens[0], 3, 500, resultInvalid},
		{tokens[0], outcomeWon, 500, resultBooked},
		{tokens[0], outcomeWon, 400, resultAlreadyBooked},
		{tokens[0], outcomeLost, 0, resultAlreadyEnded},
		{tokens[1], outcomeLost, 0, resultReleased},
		{tokens[1], outcomeLost, 0, resultAlreadyEnded},
		{tokens[1], outcomeWon, 100, resultBookedLate},
		{tokens[2], outcomeWon, math.MaxUint64, resultInvalid},
	}
	for i, row := range rows {
		if got := c.settle(row.token, row.outcome, row.cost); got != row.want {
			t.Errorf("settlement %d: %d, want %d", i, got, row.want)
		}
	}
	if reserved, spent := p.books(1); reserved != 0 || spent != 600 {
		t.Errorf("reserved %d, spent %d", reserved, spent)
	}
}

func TestRefusals(t *testing.T) {
	_, c := start(t, usual())
	one := func(w ...wish) request { return request{1, 0, w} }
	rows := []struct {
		name     string
		deadline uint32
		request  request
		want     byte
	}{
		{"unknown kind of amount", aMinuteMicros, one(wish{1, 3, 1, 0}), codeInvalid},
		{"amount out of range", aMinuteMicros, one(wish{1, amountPrice, amountMax + 1, 0}), codeInvalid},
		{"minimum out of range", aMinuteMicros, one(wish{1, amountPrice, 1, amountMax + 1}), codeInvalid},
		{"no such campaign", aMinuteMicros, one(wish{4, amountPrice, 1, 0}), codeUnknown},
		{"handle zero", aMinuteMicros, one(wish{0, amountPrice, 1, 0}), codeUnknown},
		{"below its minimum", aMinuteMicros, one(wish{1, amountPrice, 1, 2}), codeBelowMinimum},
		{"dearer than any budget", aMinuteMicros, one(wish{1, amountCost, math.MaxUint64, 0}), codeBudgetExhausted},
		{"the highest code of all", aMinuteMicros, one(wish{4, 0, 1, 0}, wish{1, 0, 1, 2}, wish{1, 3, 1, 0}), codeBelowMinimum},
		{"late", 0, one(wish{1, amountPrice, 1, 0}), codeLate},
	}
	for _, row := range rows {
		decisions, tokens := c.batch(row.deadline, row.request)
		if decisions[0].code != row.want || len(tokens) != 0 {
			t.Errorf("%s: %v, want %d", row.name, decisions[0], row.want)
		}
	}
}

func TestAShareOfRequestsIsRefused(t *testing.T) {
	options := usual()
	options.refusePpm = 700_000
	p := newPacer(options)
	refused := 0
	for id := range uint64(100_000) {
		if p.refused(id) {
			refused++
		}
	}
	if refused < 69_500 || refused > 70_500 {
		t.Errorf("%d of 100000", refused)
	}
	_, c := start(t, options)
	for id := range uint64(50) {
		decisions, _ := c.batch(aMinuteMicros, request{id, 0, []wish{{1, amountValue, 1, 0}}})
		want := byte(codeAuthorised)
		if p.refused(id) {
			want = codeThrottled
		}
		if decisions[0].code != want {
			t.Errorf("request %d: %v, want %d", id, decisions[0], want)
		}
		decisions, _ = c.batch(aMinuteMicros, request{id, 0, []wish{{1, amountCost, 1, 0}}})
		if decisions[0].code != codeAuthorised {
			t.Errorf("request %d with a cost: %v", id, decisions[0])
		}
	}
}

func TestFaultsEndTheConnectionWithTheirCode(t *testing.T) {
	batch := func(candidates, candidateLen byte) []byte { return []byte{0, 1, 0, 0, candidates, 0, candidateLen, 0} }
	entry := func(candidates byte) []byte { return append(make([]byte, 14), candidates, 0) }
	rows := []struct {
		name  string
		fault func(c *client)
		code  uint16
	}{
		{"a hole", func(c *client) { c.sequence++; c.send(kindHeartbeat, make([]byte, 16), 0, nil, nil) }, codeSequence},
		{"two hellos", func(c *client) { c.send(kindHello, make([]byte, 8), 0, nil, nil) }, codeKind},
		{"a welcome", func(c *client) { c.send(kindWelcome, make([]byte, 56), 0, nil, nil) }, codeKind},
		{"no requests", func(c *client) { c.send(kindBatch, batch(0, 24), batchEntry, nil, nil) }, codeCount},
		{"no candidates", func(c *client) { c.send(kindBatch, batch(0, 24), batchEntry, entry(0), nil) }, codeCount},
		{"another number", func(c *client) { c.send(kindBatch, batch(2, 24), batchEntry, entry(1), make([]byte, 48)) }, codeCount},
		{"short candidates", func(c *client) { c.send(kindBatch, batch(1, 23), batchEntry, entry(1), make([]byte, 23)) }, codeLength},
		{"short tail", func(c *client) { c.send(kindBatch, batch(1, 24), batchEntry, entry(1), make([]byte, 23)) }, codeLength},
		{"long tail", func(c *client) { c.send(kindBatch, batch(1, 24), batchEntry, entry(1), make([]byte, 25)) }, codeLength},
		{"no settlements", func(c *client) { c.send(kindSettle, nil, settleEntry, nil, nil) }, codeCount},
	}
	for _, row := range rows {
		_, c := start(t, usual())
		row.fault(c)
		whole := c.receive(kindError, c.sequence)
		if got := binary.LittleEndian.Uint16(whole[24:]); got != row.code {
			t.Errorf("%s: code %d, want %d", row.name, got, row.code)
		}
		if _, err := c.reader.ReadByte(); err == nil {
			t.Errorf("%s: the connection goes on", row.name)
		}
	}
}

func TestHellosAreChecked(t *testing.T) {
	_, address := listen(t, usual())
	rows := []struct {
		fixed []byte
		tail  string
		code  uint16
	}{
		{[]byte{2, 3, 1, 1, 0, 0, 1, 0}, "ab", codeVersion},
		{[]byte{1, 1, 1, 1, 0, 0, 1, 0}, "a", codeLength},
		{[]byte{1, 1, 1, 1, 0, 0, 1, 0}, "a\xff", codeText},
		{[]byte{1, 1, 1, 1, 255, 15, 0, 0}, "ab", codeLength},
	}
	for _, row := range rows {
		c := dial(t, address)
		c.send(kindHello, row.fixed, 0, nil, []byte(row.tail))
		if got := binary.LittleEndian.Uint16(c.receive(kindError, 1)[24:]); got != row.code {
			t.Errorf("%v: code %d, want %d", row.fixed, got, row.code)
		}
	}
}

func TestTheCatalogueFitsTheClientsFrames(t *testing.T) {
	options := usual()
	options.campaigns = 1000
	_, address := listen(t, options)
	c := dial(t, address)
	c.send(kindHello, []byte{1, 1, 1, 1, 0, 16, 0, 0}, 0, nil, []byte("ab"))
	c.receive(kindWelcome, 1)
	handles, frames, last := 0, 0, byte(0)
	for last&2 == 0 {
		whole := c.receive(kindCatalogue, 0)
		if len(whole) > 4096 {
			t.Errorf("a frame of %d bytes", len(whole))
		}
		last = whole[34]
		if first := last&1 == 1; first != (frames == 0) {
			t.Errorf("frame %d: flags %d", frames, last)
		}
		handles += int(binary.LittleEndian.Uint16(whole[6:]))
		frames++
	}
	if handles != 1000 || frames < 2 {
		t.Errorf("%d campaigns in %d frames", handles, frames)
	}
}

func TestAHeartbeatIsAnswered(t *testing.T) {
	_, c := start(t, usual())
	c.send(kindHeartbeat, make([]byte, heartbeatFixed), 0, nil, nil)
	if got := binary.LittleEndian.Uint16(c.receive(kindHeartbeat, 2)[32:]); got != credit {
		t.Errorf("credit %d", got)
	}
}

func TestReservationsExpire(t *testing.T) {
	c := &campaign{budget: 10}
	expiry, end := uint32(lifetime.Milliseconds()), uint32((lifetime + lateWindow).Milliseconds())
	reserve := func(amount int64, nowMs uint32, want bool) uint64 {
		t.Helper()
		sequence, ok := c.reserve(amount, nowMs)
		if ok != want {
			t.Errorf("%d at %d ms: %t", amount, nowMs, ok)
		}
		return sequence
	}
	settle := func(sequence uint64, outcome byte, nowMs uint32, want byte) {
		t.Helper()
		if got := c.settle(sequence, outcome, 4, nowMs); got != want {
			t.Errorf("settlement at %d ms: %d, want %d", nowMs, got, want)
		}
	}
	first, second, third := reserve(5, 0, true), reserve(5, 0, true), uint64(0)
	reserve(1, expiry-1, false)
	settle(first, outcomeWon, expiry-1, resultBooked) // 1 of 5 returns
	third = reserve(6, expiry, true)                  // with the 5 of the second
	reserve(1, expiry, false)                         // 4 are spent
	settle(second, outcomeLost, expiry, resultAlreadyEnded)
	settle(second, outcomeWon, end-1, resultBookedLate)
	settle(second, outcomeWon, end-1, resultAlreadyBooked)
	settle(second, outcomeWon, end, resultTooOld)
	settle(third, outcomeLost, end, resultAlreadyEnded) // which expired at 2 × expiry
	if c.reserved != 0 || c.spent != 8 {
		t.Errorf("reserved %d, spent %d", c.reserved, c.spent)
	}
	if len(c.reservations) != 1 {
		t.Errorf("%d reservations are kept", len(c.reservations))
	}
}

func TestManyGoroutinesNeverExceedABudget(t *testing.T) {
	c := &campaign{budget: 1000}
	var wait sync.WaitGroup
	var mutex sync.Mutex
	authorised := 0
	for range 8 {
		wait.Go(func() {
			for range 1000 {
				if _, ok := c.reserve(3, 0); ok {
					mutex.Lock()
					authorised++
					mutex.Unlock()
				}
			}
		})
	}
	wait.Wait()
	if authorised != 333 || c.reserved != 999 {
		t.Errorf("%d authorised, %d reserved", authorised, c.reserved)
	}
}
