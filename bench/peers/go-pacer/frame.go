package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

const (
	protocolVersion = 1
	headBytes       = 24
	checksumAt      = 20
	frameBytesMax   = 64 << 10 // what this server accepts
)

const (
	kindHello     = 1
	kindWelcome   = 2
	kindBatch     = 3
	kindDecisions = 4
	kindSettle    = 5
	kindSettled   = 6
	kindCatalogue = 7
	kindHeartbeat = 8
	kindError     = 9
)

// Lengths of fixed parts, entries and items of a tail.
const (
	helloFixed     = 8
	welcomeFixed   = 56
	batchFixed     = 8
	decisionsFixed = 16
	settledFixed   = 8
	catalogueFixed = 16
	heartbeatFixed = 16
	errorFixed     = 4

	batchEntry     = 16
	decisionEntry  = 16
	settleEntry    = 64
	settledEntry   = 4
	catalogueEntry = 12
	candidateBytes = 24
	tokenBytes     = 48
)

// failure is an error of the protocol: the last frame of a connection.
type failure struct {
	code uint16
	text string
}

func (f *failure) Error() string { return fmt.Sprintf("error %d: %s", f.code, f.text) }

const (
	codeMagic    = 2
	codeVersion  = 3
	codeKind     = 4
	codeLength   = 5
	codeTooLong  = 6
	codeChecksum = 7
	codeCount    = 8
	codeText     = 9
	codeSequence = 10
	codeSlow     = 12
	codeIdle     = 14
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(frame []byte) uint32 {
	return crc32.Update(crc32.Checksum(frame[:checksumAt], castagnoli), castagnoli, frame[headBytes:])
}

// frame is a received frame. Its parts lie in the reader's buffer until it is discarded.
type frame struct {
	kind     byte
	sequence uint64
	fixed    []byte // at least as long as its kind says
	entries  []byte
	entryLen int
	count    int
	tail     []byte
	length   int
}

func (f *frame) entry(i int) []byte { return f.entries[i*f.entryLen : (i+1)*f.entryLen] }

// fixedAndEntry is the least length of both parts of a kind that clients send.
func fixedAndEntry(kind byte) (fixed, entry int, known bool) {
	switch kind {
	case kindHello:
		return helloFixed, 0, true
	case kindBatch:
		return batchFixed, batchEntry, true
	case kindSettle:
		return 0, settleEntry, true
	case kindHeartbeat:
		return heartbeatFixed, 0, true
	}
	return 0, 0, false
}

// readFrame waits for a frame. The caller discards `length` bytes of the reader when it is done.
// before is called ahead of each wait for bytes.
func readFrame(reader *bufio.Reader, before func()) (frame, error) {
	if reader.Buffered() < headBytes {
		before()
	}
	head, err := reader.Peek(headBytes)
	if err != nil {
		return frame{}, err
	}
	length, err := frameLength(head)
	if err != nil {
		return frame{sequence: binary.LittleEndian.Uint64(head[12:])}, err
	}
	if reader.Buffered() < length {
		before()
	}
	whole, err := reader.Peek(length)
	if err != nil {
		return frame{}, err
	}
	return parse(whole)
}

// frameLength checks the fields that must hold before the rest of the frame is awaited.
func frameLength(head []byte) (int, error) {
	if head[0] != 'V' || head[1] != 'P' {
		return 0, &failure{codeMagic, "not a frame of this protocol"}
	}
	if head[2] != protocolVersion {
		return 0, &failure{codeVersion, fmt.Sprintf("version %d: this server speaks 1", head[2])}
	}
	length := binary.LittleEndian.Uint32(head[8:])
	if length > frameBytesMax {
		return 0, &failure{codeTooLong, fmt.Sprintf("%d bytes: at most %d", length, frameBytesMax)}
	}
	if length < headBytes {
		return 0, &failure{codeLength, "shorter than a head"}
	}
	return int(length), nil
}

// parse splits a whole frame into its parts.
func parse(whole []byte) (frame, error) {
	f := frame{kind: whole[3], sequence: binary.LittleEndian.Uint64(whole[12:]), length: len(whole)}
	if checksum(whole) != binary.LittleEndian.Uint32(whole[checksumAt:]) {
		return f, &failure{codeChecksum, "wrong checksum"}
	}
	fixed, entry, known := fixedAndEntry(f.kind)
	if !known {
		return f, &failure{codeKind, fmt.Sprintf("kind %d: not for a client", f.kind)}
	}
	headLen := int(whole[4])
	f.entryLen, f.count = int(whole[5]), int(binary.LittleEndian.Uint16(whole[6:]))
	tailAt := headLen + f.count*f.entryLen
	if headLen < headBytes+fixed || (f.count > 0 && f.entryLen < entry) || tailAt > len(whole) {
		return f, &failure{codeLength, "lengths contradict each other"}
	}
	f.fixed, f.entries, f.tail = whole[headBytes:headLen], whole[headLen:tailAt], whole[tailAt:]
	return f, nil
}

// begin appends the head and the zeroed fixed part and entries of a frame, and returns both parts.
// They stay valid until the next append.
func begin(buffer []byte, kind byte, sequence uint64, fixed, entry, count int) (grown, fixedPart, entries []byte) {
	start := len(buffer)
	total := headBytes + fixed + entry*count
	buffer = append(buffer, make([]byte, total)...)
	head := buffer[start:]
	head[0], head[1], head[2], head[3] = 'V', 'P', protocolVersion, kind
	head[4] = byte(headBytes + fixed)
	if count > 0 {
		head[5] = byte(entry)
	}
	binary.LittleEndian.PutUint16(head[6:], uint16(count))
	binary.LittleEndian.PutUint64(head[12:], sequence)
	return buffer, head[headBytes : headBytes+fixed], head[headBytes+fixed : total]
}

// seal fills in length and checksum of a frame that is complete.
func seal(whole []byte) []byte {
	binary.LittleEndian.PutUint32(whole[8:], uint32(len(whole)))
	binary.LittleEndian.PutUint32(whole[checksumAt:], checksum(whole))
	return whole
}
