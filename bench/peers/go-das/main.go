// Go-das asks a provider as das2go does, the server of CMS DAS in Go (github.com/dmwm/das2go, as of 2024): queries
// find blocks, then every block is asked for through one queue of the process.
//
// Its design, not its code: a queue of at most 100 calls at a time for all providers together, whose loop sleeps 10 ms
// for each call; the first step bypasses the queue; a call without an answer is tried three times more, after one, two
// and three seconds; an answer with any status is read as data.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	queueLimit = 100
	queuePause = 10 * time.Millisecond
	retries    = 3
	perBlock   = 2 // Records that the provider has of each block.
)

// A Summary is what all queries together came to.
type Summary struct {
	Calls    int64   `json:"calls"`
	Attempts int64   `json:"attempts"`
	Lacking  int64   `json:"lacking"` // Queries that lack something.
	Elapsed  float64 `json:"elapsed_s"`
}

// A Fetcher makes calls.
type Fetcher struct {
	client          *http.Client
	base            string
	queue           chan func()
	calls, attempts atomic.Int64
}

// NewFetcher returns one whose queue runs.
func NewFetcher(base string) *Fetcher {
	transport := &http.Transport{MaxIdleConnsPerHost: queueLimit}
	f := &Fetcher{client: &http.Client{Transport: transport}, base: base, queue: make(chan func())}
	go f.dispatch()
	return f
}

// dispatch starts the calls of the queue, one each 10 ms, while fewer than the limit run.
func (f *Fetcher) dispatch() {
	var running atomic.Int64
	for call := range f.queue {
		for running.Load() >= queueLimit {
			time.Sleep(queuePause)
		}
		go func() {
			running.Add(1)
			defer running.Add(-1)
			call()
		}()
		time.Sleep(queuePause)
	}
}

// fetch returns the body of an answer, whatever its status.
func (f *Fetcher) fetch(target string) []byte {
	f.calls.Add(1)
	for attempt := 0; ; attempt++ {
		f.attempts.Add(1)
		body, err := f.get(target)
		if err == nil || attempt == retries {
			return body
		}
		time.Sleep(time.Duration(attempt+1) * time.Second)
	}
}

func (f *Fetcher) get(target string) ([]byte, error) {
	answer, err := f.client.Get(f.base + target)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	return io.ReadAll(answer.Body)
}

// records are the lines of a body that are objects.
func records(body []byte) []map[string]any {
	var found []map[string]any
	lines := bufio.NewScanner(bytes.NewReader(body))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var record map[string]any
		if json.Unmarshal(lines.Bytes(), &record) == nil {
			found = append(found, record)
		}
	}
	return found
}

// query asks for the places of all blocks of a dataset. It returns whether it has them all.
func (f *Fetcher) query(dataset string, blocks int) bool {
	found := records(f.fetch("/dids/" + url.PathEscape(dataset) + "/dids"))
	var wait sync.WaitGroup
	var places atomic.Int64
	for _, block := range found {
		name, _ := block["name"].(string)
		wait.Add(1)
		f.queue <- func() {
			defer wait.Done()
			body := f.fetch("/replicas?block=" + url.QueryEscape(name))
			places.Add(int64(len(records(body))))
		}
	}
	wait.Wait()
	return len(found) == blocks && places.Load() == int64(perBlock*blocks)
}

// run asks all queries at once.
func run(base string, queries, blocks int) Summary {
	f := NewFetcher(base)
	began := time.Now()
	var wait sync.WaitGroup
	var lacking atomic.Int64
	for number := range queries {
		wait.Add(1)
		go func() {
			defer wait.Done()
			if !f.query(fmt.Sprintf("/a/b/c%d", number), blocks) {
				lacking.Add(1)
			}
		}()
	}
	wait.Wait()
	return Summary{f.calls.Load(), f.attempts.Load(), lacking.Load(), time.Since(began).Seconds()}
}

func main() {
	base := flag.String("url", "", "URL of the provider")
	queries := flag.Int("queries", 50, "queries at a time")
	blocks := flag.Int("blocks", 106, "blocks that each finds")
	flag.Parse()
	if *base == "" {
		log.Fatal("-url is missing: give the URL of `vickrey provider`")
	}
	if err := json.NewEncoder(os.Stdout).Encode(run(*base, *queries, *blocks)); err != nil {
		log.Fatal(err)
	}
}
