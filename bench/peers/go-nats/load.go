package main

import (
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	tick           = time.Millisecond       // how often what is due is sent
	grace          = 500 * time.Millisecond // how long late messages are waited for
	bodyBytesLeast = 80
)

type loadOptions struct {
	address          string
	subscribers      int
	rate             int
	bytes            int
	measured, warmUp time.Duration
	server           int // 0 if its CPU time is not asked for
}

func (o *loadOptions) check() error {
	switch {
	case o.address == "":
		return errors.New("-address is missing")
	case o.subscribers < 1 || o.rate < 1:
		return errors.New("-subscribers and -rate: need 1 or more")
	case o.bytes < bodyBytesLeast || o.bytes > bufferBytes/2:
		return fmt.Errorf("-bytes %d: needs %d to %d", o.bytes, bodyBytesLeast, bufferBytes/2)
	case o.measured < time.Second || o.warmUp < 0:
		return errors.New("-seconds: needs 1 or more; -warm-up: 0 or more")
	}
	return nil
}

// loadReport has the names of `vickrey hammer live`.
type loadReport struct {
	Delivered        int64            `json:"delivered"`
	DeliveredPerS    int64            `json:"delivered_per_s"`
	LatencyUs        map[string]int64 `json:"latency_us"`
	Gaps             int64            `json:"gaps"`
	Closed           int64            `json:"closed"`
	GeneratorBusyPpm int64            `json:"generator_busy_ppm"`
	Server           *serverReport    `json:"server"`
}

type serverReport struct {
	CpuUs            int64 `json:"cpu_us"`
	DeliveredPerCpuS int64 `json:"delivered_per_cpu_s"`
}

// loadRun is one load while it goes on.
type loadRun struct {
	latencies            histogram
	gaps, closed         atomic.Int64
	fromMicros, toMicros int64 // due times that are measured
}

// measure connects everybody, publishes, and adds up.
func measure(options loadOptions) (*loadReport, error) {
	subscribers := make([]*client, options.subscribers)
	for i := range subscribers {
		subscriber, err := dial(options.address)
		if err != nil {
			return nil, err
		}
		defer subscriber.conn.Close()
		if err := subscriber.subscribe(); err != nil {
			return nil, err
		}
		subscribers[i] = subscriber
	}
	publisher, err := dial(options.address)
	if err != nil {
		return nil, err
	}
	defer publisher.conn.Close()
	begun := time.Now()
	from := begun.Add(options.warmUp)
	to := from.Add(options.measured)
	r := &loadRun{fromMicros: from.UnixMicro(), toMicros: to.UnixMicro()}
	var isOver atomic.Bool
	for _, subscriber := range subscribers {
		go r.receive(subscriber, &isOver)
	}
	go r.discard(publisher, &isOver)
	failed := make(chan error, 1)
	go func() { failed <- publish(publisher.conn, options, begun, to) }()
	time.Sleep(time.Until(from))
	busyBefore := ownCpu()
	before, err := cpuMicros(options.server)
	if err != nil {
		return nil, err
	}
	if err := <-failed; err != nil {
		return nil, err
	}
	after, err := cpuMicros(options.server)
	if err != nil {
		return nil, err
	}
	busy := ownCpu() - busyBefore
	time.Sleep(grace)
	isOver.Store(true)
	return r.report(options, busy, after-before), nil
}

func (r *loadRun) report(options loadOptions, busy time.Duration, serverMicros int64) *loadReport {
	delivered, h := r.latencies.count(), &r.latencies
	report := &loadReport{
		Delivered:     delivered,
		DeliveredPerS: int64(float64(delivered) / options.measured.Seconds()),
		LatencyUs: map[string]int64{
			"p50": h.quantile(500), "p99": h.quantile(990), "p999": h.quantile(999), "max": h.most.Load(),
		},
		Gaps:             r.gaps.Load(),
		Closed:           r.closed.Load(),
		GeneratorBusyPpm: int64(busy) * 1_000_000 / int64(options.measured),
	}
	if options.server != 0 && serverMicros > 0 {
		report.Server = &serverReport{serverMicros, delivered * 1_000_000 / serverMicros}
	}
	return report
}

// receive takes the messages of a subscriber until its connection ends.
func (r *loadRun) receive(subscriber *client, isOver *atomic.Bool) {
	for expected := int64(0); ; {
		body, _, err := subscriber.next()
		if err == nil && body == nil {
			continue
		}
		var n, due int64
		if err == nil {
			n, due, err = numbers(body)
		}
		if err != nil {
			if !isOver.Load() {
				r.closed.Add(1)
			}
			return
		}
		r.gaps.Add(max(n-expected, 0))
		expected = n + 1
		if due >= r.fromMicros && due < r.toMicros {
			r.latencies.add(time.Now().UnixMicro() - due)
		}
	}
}

// discard answers the pings of the publisher's connection.
func (r *loadRun) discard(publisher *client, isOver *atomic.Bool) {
	for {
		if _, _, err := publisher.next(); err != nil {
			if !isOver.Load() {
				r.closed.Add(1)
			}
			return
		}
	}
}

// publish sends at a constant rate, whatever the server does, all that is due before the end.
func publish(conn net.Conn, options loadOptions, begun, end time.Time) error {
	ticks := time.NewTicker(tick)
	defer ticks.Stop()
	var frames []byte
	for n := int64(0); ; <-ticks.C {
		now := time.Now()
		frames = frames[:0]
		for ; ; n++ {
			due := begun.Add(time.Duration(n * int64(time.Second) / int64(options.rate)))
			if due.After(now) || !due.Before(end) {
				break
			}
			frames = appendPublish(frames, options.bytes, n, due.UnixMicro())
		}
		if _, err := conn.Write(frames); err != nil || !now.Before(end) {
			return err
		}
	}
}

// ownCpu is the processor time of this process.
func ownCpu() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
