package main

import (
	"bufio"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

func TestEverySubscriberGetsEveryMessage(t *testing.T) {
	nats, err := start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer nats.Shutdown()
	options := loadOptions{
		address: nats.Addr().String(), subscribers: 3, rate: 200, bytes: 200,
		measured: time.Second, server: os.Getpid(),
	}
	report, err := measure(options)
	if err != nil {
		t.Fatal(err)
	}
	if report.Delivered != 3*200 || report.Gaps != 0 || report.Closed != 0 {
		t.Errorf("%+v", report)
	}
	latency := report.LatencyUs
	if latency["p50"] <= 0 || latency["p50"] > latency["p99"] || latency["p99"] > latency["max"] {
		t.Errorf("%v", latency)
	}
}

func TestBodiesAreAsLongAsAskedAndReadBack(t *testing.T) {
	for _, length := range []int{bodyBytesLeast, 200} {
		whole := string(appendPublish(nil, length, 12, 1_764_028_800_000_000))
		head, rest, _ := strings.Cut(whole, "\r\n")
		body, end := rest[:length], rest[length:]
		if !strings.HasPrefix(head, "PUB news ") || end != "\r\n" || !strings.HasSuffix(body, `"}`) {
			t.Errorf("%q", whole)
		}
		n, due, err := numbers([]byte(body))
		if n != 12 || due != 1_764_028_800_000_000 || err != nil {
			t.Errorf("%d, %d, %v", n, due, err)
		}
	}
}

func TestLinesOfTheServer(t *testing.T) {
	rows := []struct {
		text, body, failure string
		isPong              bool
	}{
		{"INFO {}\r\n", "", "", false},
		{"PONG\r\n", "", "", true},
		{"MSG news 1 5\r\nhello\r\n", "hello", "", false},
		{"MSG news 1 reply 5\r\nhello\r\n", "hello", "", false},
		{"MSG news 1 five\r\n", "", "no length of a message", false},
		{"-ERR 'Slow Consumer'\r\n", "", "Slow Consumer", false},
	}
	for _, row := range rows {
		c := &client{reader: bufio.NewReaderSize(strings.NewReader(row.text), bufferBytes)}
		body, isPong, err := c.next()
		if string(body) != row.body || isPong != row.isPong || (err == nil) != (row.failure == "") {
			t.Errorf("%q: %q, %t, %v", row.text, body, isPong, err)
		}
		if err != nil && !strings.Contains(err.Error(), row.failure) {
			t.Errorf("%q: %v", row.text, err)
		}
	}
}

func TestPingsAreAnswered(t *testing.T) {
	here, there := net.Pipe()
	defer there.Close()
	c := &client{conn: here, reader: bufio.NewReader(strings.NewReader("PING\r\n"))}
	go c.next()
	if line, err := bufio.NewReader(there).ReadString('\n'); line != "PONG\r\n" {
		t.Errorf("%q, %v", line, err)
	}
}

func TestQuantilesAreNearTheTimes(t *testing.T) {
	var h histogram
	for micros := range int64(100_000) {
		h.add(micros + 1)
	}
	if h.count() != 100_000 || h.most.Load() != 100_000 {
		t.Errorf("%d, %d", h.count(), h.most.Load())
	}
	for permille, want := range map[int64]int64{500: 50_000, 990: 99_000, 999: 99_900} {
		if got := h.quantile(permille); got < want || got > want+want/60 {
			t.Errorf("%d of 1000: %d, want about %d", permille, got, want)
		}
	}
	for _, micros := range []int64{0, 1, 63, 64, 127, 128, 1_000_000} {
		if end := bucketEnd(bucketOf(micros)); end < micros || end > micros+micros/60 {
			t.Errorf("%d: its bucket ends at %d", micros, end)
		}
	}
}

func TestProcessorTimeIsReadBehindTheName(t *testing.T) {
	stat := "42 (a (b) c) S 1 42 42 0 -1 0 0 0 0 0 120 34 0 0 20 0 5 0 100 0 0"
	if micros, err := statMicros(stat); micros != 1_540_000 || err != nil {
		t.Errorf("%d, %v", micros, err)
	}
	for _, stat := range []string{"", "42 (a) S 1", strings.Replace(stat, "120", "x", 1)} {
		if _, err := statMicros(stat); err == nil {
			t.Errorf("%q is no stat", stat)
		}
	}
}
