// Command go-exchange is a peer to measure Vickrey against: the exchange that a competent Go
// engineer would write first. net/http on both sides, one goroutine for each DSP and auction, a
// generous keep-alive pool, a context deadline taken from tmax, encoding/json throughout.
//
// It parses the request, keeps the fields it does not know, sends each DSP a body of its own,
// compares prices with floors in integer micros, and answers with the winning bids at first or
// second price.
//
// It leaves out what a real exchange cannot: deals, blocks and creative checks, seats and groups,
// currency conversion, fees, budgets, notices, fair ties, limits on a DSP, metrics. So its number
// flatters it beside any exchange that has them.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
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
	var urls []string
	listen := flag.String("listen", "127.0.0.1:0", "where bid requests arrive; port 0 lets the kernel choose")
	flag.Func("dsp", "a DSP to ask, as `HOST:PORT[/path]`; repeat for more", func(url string) error {
		urls = append(urls, url)
		return nil
	})
	file := flag.String("dsps", "", "a `file` of DSPs, one a line; blank lines and lines that begin with # are skipped")
	tmax := flag.Duration("tmax", 120*time.Millisecond, "time for an auction whose request states none, and the cap for one that does")
	reserve := flag.Duration("reserve", 5*time.Millisecond, "part of tmax kept for answering")
	once := flag.Bool("marshal-once", false, "send every DSP the same bytes instead of a body of its own")
	flag.Parse()

	if *file != "" {
		listed, err := readLines(*file)
		if err != nil {
			return err
		}
		urls = append(urls, listed...)
	}
	if len(urls) == 0 {
		return errors.New("no DSP to ask: give -dsp HOST:PORT or -dsps FILE")
	}
	exchange, err := newExchange(urls, options{tmax: *tmax, reserve: *reserve, marshalOnce: *once})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	fmt.Println("listening on", listener.Addr())
	return serve(listener, exchange)
}

// serve answers until SIGTERM or SIGINT, then reports.
func serve(listener net.Listener, exchange *exchange) error {
	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	server := &http.Server{Handler: exchange, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-stop.Done():
	}
	report(exchange)
	return server.Close()
}

// report writes one line of `name value` pairs, the same from every program in bench.
func report(exchange *exchange) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		fmt.Fprintln(os.Stderr, "error: no resource usage:", err)
		return
	}
	cpu := time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
	auctions := exchange.auctions.Load()
	fmt.Fprintf(os.Stderr, "auctions %d cpu_s %.3f auctions_per_cpu_s %.0f calls %d failed %d late %d\n",
		auctions, cpu, float64(auctions)/cpu, exchange.calls.Load(), exchange.failed.Load(), exchange.late.Load())
}

func readLines(path string) ([]string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var lines []string
	scanner := bufio.NewScanner(file)
	for scanner.Scan() {
		line := strings.TrimSpace(scanner.Text())
		if line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines, scanner.Err()
}
