// Command go-pacer is a peer to measure Vickrey's pacer against: what a competent Go team would
// write in a week for docs/pacer-protocol.md. One goroutine for each connection, a bufio.Reader and
// a bufio.Writer, one budget with a sync.Mutex for each campaign, hash/crc32, tokens sealed with
// HMAC-SHA-256.
//
// It pays a value in full as the price, if the budget holds it. Every reservation lives for 15 s and
// can be settled for 15 s more. A share of the requests is refused as throttled, chosen by a hash of
// their id, which stands in for a strategy.
//
// It leaves out what a real pacer cannot: durability (settlements are booked in memory and answered
// at once; a restart forgets all money and voids all tokens), strategies, flights, dayparts, hours
// and days, changes of the campaigns, accounts and their secrets, TLS, tests (their flag is ignored),
// metrics, administration. So its number flatters it beside any pacer that has them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run() error {
	var options options
	listen := flag.String("listen", "127.0.0.1:0", "where clients connect; port 0 lets the kernel choose")
	flag.IntVar(&options.campaigns, "campaigns", 1000, "number of campaigns, named c1, c2 and so on")
	flag.Int64Var(&options.budget, "budget", 1_000_000_000_000_000, "budget of each campaign in `nanos`")
	flag.Uint64Var(&options.refusePpm, "refuse-ppm", 0, "requests refused as throttled, per `million`")
	flag.StringVar(&options.account, "account", "account", "`id` of the account of all campaigns")
	flag.Parse()
	if err := options.check(); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	fmt.Println("listening on", listener.Addr())
	return serveUntilStopped(listener, newPacer(options))
}

func (o *options) check() error {
	switch {
	case o.campaigns < 1 || o.campaigns > 10_000_000:
		return fmt.Errorf("-campaigns %d: needs 1 to 10000000", o.campaigns)
	case o.budget < 0:
		return fmt.Errorf("-budget %d: needs 0 or more", o.budget)
	case o.refusePpm > partsPerMillion:
		return fmt.Errorf("-refuse-ppm %d: at most 1000000", o.refusePpm)
	case len(o.account) < 1 || len(o.account) > 255:
		return fmt.Errorf("-account: needs 1 to 255 bytes")
	}
	return nil
}

// serveUntilStopped answers until SIGTERM or SIGINT, then reports.
func serveUntilStopped(listener net.Listener, p *pacer) error {
	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	failed := make(chan error, 1)
	go func() { failed <- accept(listener, p) }()
	select {
	case err := <-failed:
		return err
	case <-stop.Done():
	}
	report(p)
	return listener.Close()
}

func accept(listener net.Listener, p *pacer) error {
	for {
		conn, err := listener.Accept()
		switch {
		case errors.Is(err, syscall.EMFILE):
			time.Sleep(10 * time.Millisecond) // until some connection ends
		case err != nil:
			return err
		default:
			go serve(p, conn)
		}
	}
}

// report writes one line of `name value` pairs, the same from every program in bench.
func report(p *pacer) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		fmt.Fprintln(os.Stderr, "error: no resource usage:", err)
		return
	}
	cpu := time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
	requests := p.requests.Load()
	fmt.Fprintf(os.Stderr, "requests %d cpu_s %.3f requests_per_cpu_s %.0f authorised %d settled %d\n",
		requests, cpu, float64(requests)/cpu, p.authorised.Load(), p.settled.Load())
}
