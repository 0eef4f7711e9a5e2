package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

const aMinute = time.Minute

// answering is a DSP that fills the auction's id into this answer; empty means 204.
func answering(answer string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var request struct{ ID string }
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil || answer == "" {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		io.WriteString(w, strings.ReplaceAll(answer, "$ID", request.ID))
	}
}

// bidding is a DSP that bids this for impression 1.
func bidding(price string) http.HandlerFunc {
	const answer = `{"id":"$ID","seatbid":[{"bid":[{"id":"b","impid":"1","price":%s,"crid":"c"}]}]}`
	return answering(fmt.Sprintf(answer, price))
}

// start runs an exchange over these DSPs; both end with the test.
func start(t *testing.T, options options, dsps ...http.HandlerFunc) (*exchange, string) {
	t.Helper()
	var urls []string
	for _, dsp := range dsps {
		server := httptest.NewServer(dsp)
		t.Cleanup(server.Close)
		urls = append(urls, server.URL+"/bid")
	}
	exchange, err := newExchange(urls, options)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(exchange)
	t.Cleanup(server.Close)
	// Before the DSPs close, which wait for their connections.
	t.Cleanup(exchange.client.CloseIdleConnections)
	return exchange, server.URL
}

// auction posts a request and returns status and body.
func auction(t *testing.T, url, request string) (int, string) {
	t.Helper()
	answer, err := http.Post(url, "application/json", strings.NewReader(request))
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Error(err)
	}
	return answer.StatusCode, string(body)
}

func won(price string) string {
	const answer = `{"id":"r","seatbid":[{"bid":[{"id":"b","impid":"1","price":%s,"crid":"c"}]}],"cur":"USD"}`
	return fmt.Sprintf(answer, price)
}

func request(at int) string {
	return fmt.Sprintf(`{"id":"r","at":%d,"imp":[{"id":"1","bidfloor":0.5,"banner":{}}]}`, at)
}

func TestPrices(t *testing.T) {
	wrongID := answering(`{"id":"other","seatbid":[{"bid":[{"id":"b","impid":"1","price":9}]}]}`)
	wrongCur := answering(`{"id":"$ID","cur":"EUR","seatbid":[{"bid":[{"id":"b","impid":"1","price":9}]}]}`)
	wrongImp := answering(`{"id":"$ID","seatbid":[{"bid":[{"id":"b","impid":"2","price":9}]}]}`)
	failing := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }
	huge := answering(`{"id":"$ID"` + strings.Repeat(" ", responseBytesMax) + `}`)
	for _, row := range []struct {
		name string
		at   int
		want string // none for 204
		dsps []http.HandlerFunc
	}{
		{"nobody bids", 1, "", []http.HandlerFunc{answering(""), answering("")}},
		{"first price", 1, "2.5", []http.HandlerFunc{bidding("1"), bidding("2.5"), answering("")}},
		{"second price", 2, "1.01", []http.HandlerFunc{bidding("1"), bidding("2.5")}},
		{"absent means second", 0, "1.01", []http.HandlerFunc{bidding("1"), bidding("2.5")}},
		{"alone pays the floor", 2, "0.5", []http.HandlerFunc{bidding("2.5")}},
		{"close pays no more than its bid", 2, "2.5", []http.HandlerFunc{bidding("2.499"), bidding("2.5")}},
		{"at the floor", 1, "0.5", []http.HandlerFunc{bidding("0.5")}},
		{"below the floor", 1, "", []http.HandlerFunc{bidding("0.499999")}},
		{"absurd price", 1, "1", []http.HandlerFunc{bidding("1"), bidding("1e99"), bidding("-3"), bidding(`"x"`)}},
		{"bad answers", 1, "1", []http.HandlerFunc{bidding("1"), wrongID, wrongCur, wrongImp, failing, huge, answering("{")}},
	} {
		for _, once := range []bool{false, true} {
			_, url := start(t, options{tmax: aMinute, marshalOnce: once}, row.dsps...)
			status, body := auction(t, url, request(row.at))
			switch {
			case row.want == "" && status != http.StatusNoContent:
				t.Errorf("%s: got %d %s, want 204", row.name, status, body)
			case row.want != "" && body != won(row.want):
				t.Errorf("%s: got %d %s, want %s", row.name, status, body, won(row.want))
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	_, url := start(t, options{tmax: aMinute}, answering(""))
	for request, want := range map[string]int{
		`{`:                             400,
		`null`:                          400,
		`[]`:                            400,
		`{"id":1}`:                      400,
		`{"id":"r"}`:                    400,
		`{"id":"r","imp":[null]}`:       400,
		`{"id":"r","imp":[{"id":"1"}]}`: 400,
		`{"id":"r","imp":[{"id":"1","banner":{}},{"id":"1","banner":{}}]}`:         400,
		`{"id":"r","imp":[{"id":"1","banner":{},"bidfloor":-1}]}`:                  400,
		`{"id":"r","imp":[{"id":"1","banner":{},"bidfloorcur":"EUR"}]}`:            400,
		`{"id":"r","imp":[{"id":"1","banner":{}}]}`:                                204,
		strings.Repeat(" ", requestBytesMax+1):                                     413,
		`{"id":"r","imp":[{"id":"1","native":{}}]}` + strings.Repeat(" ", 900<<10): 204,
	} {
		if status, body := auction(t, url, request); status != want {
			t.Errorf("%.80s: got %d %s, want %d", request, status, body, want)
		}
	}
}

func TestUnknownFieldsTravelOn(t *testing.T) {
	seen := make(chan map[string]any, 1)
	_, url := start(t, options{tmax: 40 * time.Second}, func(w http.ResponseWriter, r *http.Request) {
		var request map[string]any
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
			t.Error(err)
		}
		seen <- request
		w.WriteHeader(http.StatusNoContent)
	})
	auction(t, url, `{"id":"r","tmax":90000,"new":{"a":[1]},"imp":[{"id":"1","video":{"x":1},"new":2}]}`)
	got := <-seen
	if got["id"] == "r" || got["id"] == "" {
		t.Errorf("the auction's id is ours, not %v", got["id"])
	}
	if tmax := got["tmax"].(float64); tmax > 40_000 {
		t.Errorf("tmax %v is above our own", tmax)
	}
	delete(got, "id")
	delete(got, "tmax")
	text, _ := json.Marshal(got)
	if want := `{"imp":[{"id":"1","new":2,"video":{"x":1}}],"new":{"a":[1]}}`; string(text) != want {
		t.Errorf("got %s, want %s", text, want)
	}
}

func TestALateDSPIsNotWaitedFor(t *testing.T) {
	release := make(chan struct{})
	stuck := func(http.ResponseWriter, *http.Request) { <-release }
	exchange, url := start(t, options{tmax: aMinute}, bidding("1"), stuck)
	defer close(release)
	_, body := auction(t, url, strings.Replace(request(1), `"at"`, `"tmax":500,"at"`, 1))
	if body != won("1") || exchange.auctions.Load() != 1 {
		t.Errorf("got %s", body)
	}
}

func TestAuctionsSideBySide(t *testing.T) {
	exchange, url := start(t, options{tmax: aMinute}, bidding("1"), bidding("2"), answering(""))
	var clients sync.WaitGroup
	for range 16 {
		clients.Go(func() {
			for range 20 {
				if _, body := auction(t, url, request(2)); body != won("1.01") {
					t.Errorf("got %s", body)
				}
			}
		})
	}
	clients.Wait()
	if exchange.auctions.Load() != 320 || exchange.calls.Load() != 960 || exchange.failed.Load() != 0 {
		t.Error("calls were lost")
	}
}
