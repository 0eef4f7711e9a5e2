package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

const (
	currency         = "USD"
	requestBytesMax  = 1 << 20
	responseBytesMax = 256 << 10
)

type options struct {
	tmax        time.Duration // the default, and the cap
	reserve     time.Duration // kept for answering
	marshalOnce bool
}

// exchange holds auctions over a fixed set of DSPs.
type exchange struct {
	dsps    []string
	options options
	client  *http.Client

	auctions, calls, failed, late atomic.Uint64
}

func newExchange(dsps []string, options options) (*exchange, error) {
	e := &exchange{options: options}
	for _, dsp := range dsps {
		if !strings.Contains(dsp, "://") {
			dsp = "http://" + dsp
		}
		parsed, err := url.Parse(dsp)
		if err != nil {
			return nil, err
		}
		if parsed.Scheme != "http" || parsed.Port() == "" {
			return nil, fmt.Errorf("DSP `%s`: needs to be HOST:PORT[/path] over http", dsp)
		}
		e.dsps = append(e.dsps, dsp)
	}
	e.client = &http.Client{Transport: &http.Transport{
		MaxIdleConns:        0, // no limit
		MaxIdleConnsPerHost: 4096,
		IdleConnTimeout:     90 * time.Second,
		DisableCompression:  true,
	}}
	return e, nil
}

func (e *exchange) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		http.Error(w, "bid requests are POSTed", http.StatusMethodNotAllowed)
		return
	}
	arrival := time.Now()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, requestBytesMax))
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	var request bidRequest
	if err := json.Unmarshal(body, &request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	floors, err := check(&request)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	response := e.auction(r.Context(), arrival, request, floors)
	e.auctions.Add(1)
	if response == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	answer, err := json.Marshal(response)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(answer) // A caller that left needs no answer.
}

// check refuses what cannot be auctioned, and reads the floor of each impression.
func check(request *bidRequest) (map[string]micros, error) {
	if request.ID == "" || len(request.Imp) == 0 {
		return nil, errors.New("a bid request needs `id` and `imp`")
	}
	floors := make(map[string]micros, len(request.Imp))
	for _, imp := range request.Imp {
		if imp.ID == "" {
			return nil, errors.New("imp.id: missing")
		}
		if _, twice := floors[imp.ID]; twice {
			return nil, fmt.Errorf("imp.id `%s`: given twice", imp.ID)
		}
		if imp.Banner == nil && imp.Video == nil && imp.Audio == nil && imp.Native == nil {
			return nil, fmt.Errorf("imp `%s`: offers no format", imp.ID)
		}
		if imp.Bidfloorcur != "" && imp.Bidfloorcur != currency {
			return nil, fmt.Errorf("imp.bidfloorcur `%s`: only %s is sold in", imp.Bidfloorcur, currency)
		}
		floor, err := floorMicros(imp.Bidfloor)
		if err != nil {
			return nil, fmt.Errorf("imp.bidfloor `%s`: %w", imp.Bidfloor, err)
		}
		floors[imp.ID] = floor
	}
	return floors, nil
}

// auction asks every DSP, waits until all have answered or time is up, and clears.
func (e *exchange) auction(ctx context.Context, arrival time.Time, request bidRequest, floors map[string]micros) *bidResponse {
	caller := request.ID
	request.ID = rand.Text()
	ctx, cancel := context.WithDeadline(ctx, arrival.Add(e.window(request.Tmax)))
	defer cancel()
	offers := e.collect(ctx, request, floors)

	var seats []seatBid
	for _, imp := range request.Imp {
		won, pays := winnerOf(imp.ID, offers, floors[imp.ID], request.At)
		if won != nil {
			won.bid.Price = pays.number()
			seats = append(seats, seatBid{Seat: won.seat, Bid: []bid{won.bid}})
		}
	}
	if seats == nil {
		return nil
	}
	return &bidResponse{ID: caller, Seatbid: seats, Cur: currency}
}

// window is how long DSPs may take for a request that states this tmax, in milliseconds.
func (e *exchange) window(tmaxMs int64) time.Duration {
	tmax := e.options.tmax
	if 0 < tmaxMs && tmaxMs < tmax.Milliseconds() {
		tmax = time.Duration(tmaxMs) * time.Millisecond
	}
	return tmax - e.options.reserve
}

// collect fans the request out, one goroutine for each DSP, and gathers what comes in time.
func (e *exchange) collect(ctx context.Context, request bidRequest, floors map[string]micros) []offer {
	if deadline, ok := ctx.Deadline(); ok {
		request.Tmax = max(1, time.Until(deadline).Milliseconds())
	}
	var shared []byte
	if e.options.marshalOnce {
		shared, _ = request.encode() // On failure it stays nil, and each call meets the error itself.
	}
	// Room for all, so that a late goroutine never waits for a reader that is gone.
	answers := make(chan []offer, len(e.dsps))
	for dsp := range e.dsps {
		go func() {
			e.calls.Add(1)
			response, err := e.ask(ctx, dsp, request, shared)
			switch {
			case errors.Is(ctx.Err(), context.DeadlineExceeded):
				e.late.Add(1)
			case err != nil && ctx.Err() == nil: // Not because the caller left.
				e.failed.Add(1)
			}
			if err != nil || response == nil {
				answers <- nil
				return
			}
			answers <- offersOf(dsp, response, request.ID, floors)
		}()
	}
	var offers []offer
	for range e.dsps {
		select {
		case more := <-answers:
			offers = append(offers, more...)
		case <-ctx.Done():
			return offers
		}
	}
	return offers
}

// ask sends one DSP its body and parses the answer; no bid is nil.
func (e *exchange) ask(ctx context.Context, dsp int, request bidRequest, body []byte) (*bidResponse, error) {
	if body == nil {
		var err error
		if body, err = request.encode(); err != nil {
			return nil, err
		}
	}
	call, err := http.NewRequestWithContext(ctx, http.MethodPost, e.dsps[dsp], bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	call.Header.Set("Content-Type", "application/json")
	call.Header.Set("X-Openrtb-Version", "2.6")
	answer, err := e.client.Do(call)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, responseBytesMax+1))
	if err != nil {
		return nil, err
	}
	switch {
	case answer.StatusCode == http.StatusNoContent:
		return nil, nil
	case answer.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("status %d", answer.StatusCode)
	case len(text) > responseBytesMax:
		return nil, fmt.Errorf("an answer of more than %d bytes", responseBytesMax)
	}
	var response bidResponse
	if err := json.Unmarshal(text, &response); err != nil {
		return nil, err
	}
	return &response, nil
}
