package main

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

const (
	amountMax       = 1_000_000_000_000_000 // of amounts per 1000 impressions
	requestsMax     = 256
	candidatesMax   = 16
	settlementsMax  = 512
	wholeImpression = 1_000_000
	partsPerMillion = 1_000_000
)

// Codes of a decision.
const (
	codeAuthorised      = 0
	codeInvalid         = 1
	codeUnknown         = 2
	codeBudgetExhausted = 6
	codeThrottled       = 9
	codeBelowMinimum    = 10
	codeLate            = 12
)

const (
	amountValue = 0
	amountPrice = 1
	amountCost  = 2
)

type options struct {
	campaigns int
	budget    int64 // nanos of each campaign
	refusePpm uint64
	account   string
}

// pacer holds the campaigns. Handle h is campaigns[h-1].
type pacer struct {
	options   options
	campaigns []campaign
	key       [32]byte
	started   time.Time

	requests, authorised, settled atomic.Uint64
}

func newPacer(options options) *pacer {
	p := &pacer{options: options, campaigns: make([]campaign, options.campaigns), started: time.Now()}
	rand.Read(p.key[:]) // It never fails.
	for i := range p.campaigns {
		p.campaigns[i].budget = options.budget
	}
	return p
}

// ms is the time since the start, on the monotonic clock. It wraps after 49 days.
func (p *pacer) ms(at time.Time) uint32 { return uint32(at.Sub(p.started).Milliseconds()) }

func (p *pacer) campaign(handle uint32) *campaign {
	if handle == 0 || uint64(handle) > uint64(len(p.campaigns)) {
		return nil
	}
	return &p.campaigns[handle-1]
}

// refused says whether the strategy skips this request: the same requests in every run.
func (p *pacer) refused(id uint64) bool {
	// The finaliser of SplitMix64 (Steele, Lea and Flood, 2014).
	id = (id ^ id>>30) * 0xbf58476d1ce4e5b9
	id = (id ^ id>>27) * 0x94d049bb133111eb
	id ^= id >> 31
	return id%partsPerMillion < p.options.refusePpm
}

// candidate is a campaign that could bid for a request. price and cost are both known,
// whichever the client named: micros per 1000 impressions and nanos in total.
type candidate struct {
	index       uint8
	kind        byte
	code        byte // other than 0 if it is refused without a look at its budget
	handle      uint32
	price, cost uint64
}

func readCandidate(index int, raw []byte, impressions uint64) candidate {
	c := candidate{index: uint8(index), handle: binary.LittleEndian.Uint32(raw), kind: raw[4]}
	amount, minimum := binary.LittleEndian.Uint64(raw[8:]), binary.LittleEndian.Uint64(raw[16:])
	switch {
	case c.kind > amountCost:
		c.code = codeInvalid
	case c.kind == amountCost:
		c.price, c.cost = scaled(amount, wholeImpression, impressions), amount
	case amount > amountMax || minimum > amountMax:
		c.code = codeInvalid
	default:
		c.price, c.cost = amount, scaled(amount, impressions, wholeImpression)
		if amount < minimum {
			c.code = codeBelowMinimum
		}
	}
	return c
}

// scaled is amount × by / of, rounded down once, at most the largest number.
func scaled(amount, by, of uint64) uint64 {
	high, low := bits.Mul64(amount, by)
	if high >= of {
		return math.MaxUint64
	}
	quotient, _ := bits.Div64(high, low, of)
	return quotient
}

// decider decides batches and verifies tokens. One for each connection: it is not safe to share.
type decider struct {
	pacer      *pacer
	mac        hash.Hash
	sum        [sha256.Size]byte
	candidates [candidatesMax]candidate
}

func newDecider(p *pacer) *decider {
	return &decider{pacer: p, mac: hmac.New(sha256.New, p.key[:])}
}

// batch appends the decisions for a batch that was received at this time.
func (d *decider) batch(answer []byte, f *frame, received time.Time, clientFrameMax int) ([]byte, error) {
	candidateLen, err := checkBatch(f, clientFrameMax)
	if err != nil {
		return answer, err
	}
	now := time.Now()
	late := now.Sub(received) > time.Duration(binary.LittleEndian.Uint32(f.fixed))*time.Microsecond
	nowMs := d.pacer.ms(now)
	start := len(answer)
	answer, fixed, _ := begin(answer, kindDecisions, f.sequence, decisionsFixed, decisionEntry, f.count)
	binary.LittleEndian.PutUint64(fixed, generation)
	binary.LittleEndian.PutUint16(fixed[8:], credit)
	fixed[12] = tokenBytes
	entriesAt, tail, tokens := start+headBytes+decisionsFixed, f.tail, 0
	for i := range f.count {
		request := f.entry(i)
		length := int(request[14]) * candidateLen
		code := byte(codeLate)
		var chosen candidate
		var sequence uint64
		if !late {
			code, chosen, sequence = d.request(request, tail[:length], candidateLen, nowMs)
		}
		tail = tail[length:]
		entry := answer[entriesAt+i*decisionEntry:]
		entry[8] = code
		if code != codeAuthorised {
			continue
		}
		binary.LittleEndian.PutUint64(entry, chosen.price)
		if chosen.kind == amountCost {
			binary.LittleEndian.PutUint64(entry, chosen.cost)
		}
		entry[9] = chosen.index
		binary.LittleEndian.PutUint16(entry[10:], uint16(lifetime/time.Second))
		answer = d.appendToken(answer, chosen.handle, chosen.cost, sequence)
		tokens++
	}
	binary.LittleEndian.PutUint16(answer[start+headBytes+10:], uint16(tokens))
	seal(answer[start:])
	d.pacer.requests.Add(uint64(f.count))
	d.pacer.authorised.Add(uint64(tokens))
	return answer, nil
}

// checkBatch refuses counts and lengths that contradict each other.
func checkBatch(f *frame, clientFrameMax int) (candidateLen int, err error) {
	candidates, candidateLen := int(binary.LittleEndian.Uint16(f.fixed[4:])), int(f.fixed[6])
	if f.count == 0 || f.count > requestsMax {
		return 0, &failure{codeCount, "a batch holds 1 to 256 requests"}
	}
	if headBytes+decisionsFixed+f.count*(decisionEntry+tokenBytes) > clientFrameMax {
		return 0, &failure{codeCount, "the decisions could exceed the client's longest frame"}
	}
	sum := 0
	for i := range f.count {
		n := int(f.entry(i)[14])
		if n == 0 || n > candidatesMax {
			return 0, &failure{codeCount, "a request has 1 to 16 candidates"}
		}
		sum += n
	}
	if sum != candidates {
		return 0, &failure{codeCount, "the requests have another number of candidates than the tail"}
	}
	if candidateLen < candidateBytes || candidates*candidateLen != len(f.tail) {
		return 0, &failure{codeLength, "the candidates do not fill the tail"}
	}
	return candidateLen, nil
}

// request authorises the first candidate, by descending price, whose money can be reserved.
func (d *decider) request(request, raw []byte, candidateLen int, nowMs uint32) (byte, candidate, uint64) {
	impressions := uint64(binary.LittleEndian.Uint32(request[8:]))
	if impressions == 0 {
		impressions = wholeImpression
	}
	skipped := d.pacer.refused(binary.LittleEndian.Uint64(request))
	sorted := d.candidates[:0]
	for i := range int(request[14]) {
		c := readCandidate(i, raw[i*candidateLen:], impressions)
		at := len(sorted)
		sorted = append(sorted, c)
		for ; at > 0 && sorted[at-1].price < c.price; at-- {
			sorted[at] = sorted[at-1]
		}
		sorted[at] = c
	}
	highest := byte(0)
	for _, c := range sorted {
		code, sequence := c.code, uint64(0)
		campaign := d.pacer.campaign(c.handle)
		switch {
		case code == codeInvalid:
		case campaign == nil:
			code = codeUnknown
		case skipped && c.kind != amountCost: // A cost is reserved regardless of the strategy.
			code = codeThrottled
		case code == codeAuthorised:
			ok := false
			if c.cost <= math.MaxInt64 {
				sequence, ok = campaign.reserve(int64(c.cost), nowMs)
			}
			if ok {
				return codeAuthorised, c, sequence
			}
			code = codeBudgetExhausted
		}
		highest = max(highest, code)
	}
	return highest, candidate{}, 0
}

// appendToken appends 48 bytes: handle, four zeroes, amount, sequence, and half an HMAC-SHA-256.
func (d *decider) appendToken(buffer []byte, handle uint32, amount, sequence uint64) []byte {
	at := len(buffer)
	buffer = binary.LittleEndian.AppendUint64(buffer, uint64(handle))
	buffer = binary.LittleEndian.AppendUint64(buffer, amount)
	buffer = binary.LittleEndian.AppendUint64(buffer, sequence)
	return append(buffer, d.seal(buffer[at:])...)
}

func (d *decider) seal(said []byte) []byte {
	d.mac.Reset()
	d.mac.Write(said)
	return d.mac.Sum(d.sum[:0])[:tokenBytes-24]
}

// settle appends the results of a settle frame.
func (d *decider) settle(answer []byte, f *frame) ([]byte, error) {
	if f.count == 0 || f.count > settlementsMax {
		return answer, &failure{codeCount, "a frame holds 1 to 512 settlements"}
	}
	if len(f.tail) != 0 {
		return answer, &failure{codeLength, "a settle frame has no tail"}
	}
	start := len(answer)
	answer, fixed, entries := begin(answer, kindSettled, f.sequence, settledFixed, settledEntry, f.count)
	binary.LittleEndian.PutUint16(fixed, credit)
	nowMs := d.pacer.ms(time.Now())
	for i := range f.count {
		entries[i*settledEntry] = d.settlement(f.entry(i), nowMs)
	}
	seal(answer[start:])
	d.pacer.settled.Add(uint64(f.count))
	return answer, nil
}

func (d *decider) settlement(entry []byte, nowMs uint32) byte {
	token, outcome := entry[:tokenBytes], entry[56]
	if !hmac.Equal(d.seal(token[:24]), token[24:]) {
		return resultRejected
	}
	if outcome != outcomeWon && outcome != outcomeLost {
		return resultInvalid
	}
	campaign := d.pacer.campaign(uint32(binary.LittleEndian.Uint64(token)))
	cost, sequence := binary.LittleEndian.Uint64(entry[tokenBytes:]), binary.LittleEndian.Uint64(token[16:])
	return campaign.settle(sequence, outcome, cost, nowMs)
}
