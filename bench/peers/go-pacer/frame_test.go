package main

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
)

// golden reads the frames of the protocol's document, by the name of their block.
func golden(t *testing.T) map[string][]byte {
	t.Helper()
	document, err := os.ReadFile("../../../docs/pacer-protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	frames := map[string][]byte{}
	for _, block := range regexp.MustCompile("(?ms)^```text (\\w+)\n(.*?)^```").FindAllStringSubmatch(string(document), -1) {
		frame, err := hex.DecodeString(strings.Join(strings.Fields(block[2]), ""))
		if err != nil {
			t.Fatalf("%s: %v", block[1], err)
		}
		frames[block[1]] = frame
	}
	if len(frames) != 9 {
		t.Fatalf("%d golden frames, want 9", len(frames))
	}
	return frames
}

func TestGoldenFramesAreParsed(t *testing.T) {
	rows := []struct {
		name              string
		sequence          uint64
		count, head, tail int
	}{
		{"hello", 1, 0, 8, 11},
		{"batch", 2, 2, 8, 72},
		{"settle", 3, 2, 0, 0},
		{"heartbeat", 4, 0, 16, 0},
	}
	frames := golden(t)
	for _, want := range rows {
		f, err := readFrame(bufio.NewReader(bytes.NewReader(frames[want.name])), func() {})
		if err != nil {
			t.Errorf("%s: %v", want.name, err)
			continue
		}
		if f.sequence != want.sequence || f.count != want.count || len(f.fixed) != want.head || len(f.tail) != want.tail {
			t.Errorf("%s: %+v", want.name, f)
		}
	}
}

// Frames that the server sends, built by the same functions that answer clients.
func TestGoldenFramesAreBuilt(t *testing.T) {
	frames := golden(t)
	settled, fixed, entries := begin(nil, kindSettled, 3, settledFixed, settledEntry, 2)
	fixed[0], entries[settledEntry] = 64, 2
	check(t, "settled", seal(settled), frames["settled"])

	failed, fixed, _ := begin(nil, kindError, 7, errorFixed, 0, 0)
	fixed[0], fixed[2] = 10, 16
	check(t, "error", seal(append(failed, "expected frame 5"...)), frames["error"])

	hello, fixed, _ := begin(nil, kindHello, 1, helloFixed, 0, 0)
	copy(fixed, []byte{1, 1, 5, 6, 0, 0, 1, 0})
	check(t, "hello", seal(append(hello, "dsp-1s3cret"...)), frames["hello"])

	for name, frame := range frames {
		check(t, name, seal(bytes.Clone(frame)), frame)
	}
}

func check(t *testing.T, name string, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Errorf("%s:\n got %x\nwant %x", name, got, want)
	}
}

func TestMalformedFramesAreRefused(t *testing.T) {
	frame := golden(t)["batch"]
	changed := func(at int, to ...byte) []byte {
		changed := bytes.Clone(frame)
		copy(changed[at:], to)
		return seal(changed)
	}
	length := func(to ...byte) []byte { // refused before the checksum is known
		changed := bytes.Clone(frame)
		copy(changed[8:], to)
		return changed
	}
	rows := []struct {
		name string
		raw  []byte
		code uint16
	}{
		{"magic", changed(0, 'P', 'V'), codeMagic},
		{"version", changed(2, 2), codeVersion},
		{"a kind of the server", changed(3, kindDecisions), codeKind},
		{"an unknown kind", changed(3, 10), codeKind},
		{"head too short", changed(4, 31), codeLength},
		{"entries too short", changed(5, 15), codeLength},
		{"more entries than bytes", changed(6, 7), codeLength},
		{"shorter than a head", length(23, 0, 0, 0), codeLength},
		{"too long", length(1, 0, 1, 0), codeTooLong},
		{"checksum", append(bytes.Clone(frame[:len(frame)-1]), 1), codeChecksum},
	}
	for _, row := range rows {
		_, err := readFrame(bufio.NewReaderSize(bytes.NewReader(row.raw), frameBytesMax), func() {})
		var wrong *failure
		if !errors.As(err, &wrong) || wrong.code != row.code {
			t.Errorf("%s: %v, want code %d", row.name, err, row.code)
		}
	}
	for cut := range frame {
		_, err := readFrame(bufio.NewReader(bytes.NewReader(frame[:cut])), func() {})
		if err == nil {
			t.Errorf("%d of %d bytes are a frame", cut, len(frame))
		}
	}
}
