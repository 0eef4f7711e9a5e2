package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"
	"unicode/utf8"
)

const (
	generation = 1 // of the catalogue, which never changes
	// Frames are handled one at a time, so a client that exceeds this waits in the kernel's buffers.
	credit       = 64
	idle         = 60 * time.Second
	helloWithin  = 5 * time.Second
	writeWithin  = 10 * time.Second
	lingerWithin = time.Second
)

// timedConn gives every wait a deadline, and notes when bytes came.
type timedConn struct {
	net.Conn
	wait     time.Duration
	received time.Time
}

func (c *timedConn) Read(buffer []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.wait)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(buffer)
	c.received = time.Now()
	return n, err
}

func (c *timedConn) Write(buffer []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(writeWithin)); err != nil {
		return 0, err
	}
	return c.Conn.Write(buffer)
}

// connection is one client.
type connection struct {
	pacer    *pacer
	conn     *timedConn
	reader   *bufio.Reader
	writer   *bufio.Writer
	decider  *decider
	answer   []byte // reused
	sequence uint64
	frameMax int // what the client accepts
}

// serve answers the frames of a client until it leaves or errs.
func serve(p *pacer, conn net.Conn) {
	timed := &timedConn{Conn: conn, wait: helloWithin}
	c := &connection{
		pacer:    p,
		conn:     timed,
		reader:   bufio.NewReaderSize(timed, frameBytesMax),
		writer:   bufio.NewWriterSize(timed, frameBytesMax),
		decider:  newDecider(p),
		frameMax: 4096,
	}
	defer conn.Close()
	for {
		f, err := readFrame(c.reader, c.flush)
		if err == nil {
			err = c.handle(&f)
		}
		if err != nil {
			c.fail(f.sequence, err)
			return
		}
		if _, err := c.reader.Discard(f.length); err != nil {
			return
		}
	}
}

// flush sends the answers before a wait. A failure is met by the read that follows.
func (c *connection) flush() {
	if err := c.writer.Flush(); err != nil {
		c.conn.Close()
	}
}

func (c *connection) handle(f *frame) error {
	c.sequence++
	if f.sequence != c.sequence {
		return &failure{codeSequence, fmt.Sprintf("expected frame %d", c.sequence)}
	}
	if (f.kind == kindHello) != (f.sequence == 1) {
		return &failure{codeKind, "the hello is the first frame, once"}
	}
	answer, err := c.answer[:0], error(nil)
	switch f.kind {
	case kindHello:
		answer, err = c.hello(answer, f)
	case kindBatch:
		answer, err = c.decider.batch(answer, f, c.conn.received, c.frameMax)
	case kindSettle:
		answer, err = c.decider.settle(answer, f)
	case kindHeartbeat:
		answer = heartbeat(answer, f.sequence)
	}
	if err != nil {
		return err
	}
	if f.kind != kindHello { // whose answer may be large
		c.answer = answer
	}
	_, err = c.writer.Write(answer)
	return err
}

// hello appends welcome and catalogue. Any id with any secret is let in.
func (c *connection) hello(answer []byte, f *frame) ([]byte, error) {
	lowest, highest, ids := f.fixed[0], f.fixed[1], int(f.fixed[2])+int(f.fixed[3])
	if lowest > protocolVersion || highest < protocolVersion {
		return answer, &failure{codeVersion, "this server speaks 1"}
	}
	if ids != len(f.tail) {
		return answer, &failure{codeLength, "id and secret do not fill the tail"}
	}
	if !utf8.Valid(f.tail) {
		return answer, &failure{codeText, "id or secret is not UTF-8"}
	}
	c.frameMax = int(binary.LittleEndian.Uint32(f.fixed[4:]))
	if c.frameMax < 4096 {
		return answer, &failure{codeLength, "the longest frame is less than 4096"}
	}
	c.conn.wait = idle
	return c.pacer.catalogue(c.pacer.welcome(answer), min(c.frameMax, frameBytesMax)), nil
}

func (p *pacer) welcome(answer []byte) []byte {
	start := len(answer)
	answer, fixed, _ := begin(answer, kindWelcome, 1, welcomeFixed, 0, 0)
	fixed[0] = protocolVersion
	binary.LittleEndian.PutUint16(fixed[2:], credit)
	binary.LittleEndian.PutUint32(fixed[4:], 1)
	binary.LittleEndian.PutUint32(fixed[8:], uint32(p.started.Unix()))
	binary.LittleEndian.PutUint64(fixed[12:], generation)
	binary.LittleEndian.PutUint64(fixed[20:], uint64(time.Now().UnixNano()))
	binary.LittleEndian.PutUint32(fixed[28:], frameBytesMax)
	binary.LittleEndian.PutUint16(fixed[32:], requestsMax)
	binary.LittleEndian.PutUint16(fixed[34:], candidatesMax)
	binary.LittleEndian.PutUint16(fixed[36:], settlementsMax)
	binary.LittleEndian.PutUint32(fixed[40:], uint32(idle.Milliseconds()))
	binary.LittleEndian.PutUint32(fixed[44:], uint32(lifetime.Milliseconds()))
	binary.LittleEndian.PutUint32(fixed[48:], uint32(lifetime.Milliseconds()))
	binary.LittleEndian.PutUint32(fixed[52:], uint32(lateWindow.Milliseconds()))
	seal(answer[start:])
	return answer
}

// catalogue appends all campaigns, in as many frames as the client's longest frame needs.
func (p *pacer) catalogue(answer []byte, frameMax int) []byte {
	id := func(handle int) string { return fmt.Sprintf("c%d", handle) }
	rowBytes := catalogueEntry + len(p.options.account) + len(id(len(p.campaigns)))
	rows := (frameMax - headBytes - catalogueFixed) / rowBytes
	for sent := 0; ; {
		n := min(rows, len(p.campaigns)-sent)
		start := len(answer)
		var fixed, entries []byte
		answer, fixed, entries = begin(answer, kindCatalogue, 0, catalogueFixed, catalogueEntry, n)
		binary.LittleEndian.PutUint64(fixed, generation)
		binary.LittleEndian.PutUint16(fixed[8:], credit)
		if sent == 0 {
			fixed[10] |= 1 // all earlier rows are void
		}
		if sent+n == len(p.campaigns) {
			fixed[10] |= 2 // the last frame
		}
		var tail []byte
		for i := range n {
			handle := sent + i + 1
			entry := entries[i*catalogueEntry:]
			binary.LittleEndian.PutUint32(entry, uint32(handle))
			entry[5] = 1
			copy(entry[6:9], "USD")
			entry[9], entry[10] = byte(len(p.options.account)), byte(len(id(handle)))
			tail = append(append(tail, p.options.account...), id(handle)...)
		}
		answer = append(answer, tail...)
		seal(answer[start:])
		sent += n
		if sent == len(p.campaigns) {
			return answer
		}
	}
}

func heartbeat(answer []byte, sequence uint64) []byte {
	start := len(answer)
	answer, fixed, _ := begin(answer, kindHeartbeat, sequence, heartbeatFixed, 0, 0)
	binary.LittleEndian.PutUint64(fixed, uint64(time.Now().UnixNano()))
	binary.LittleEndian.PutUint16(fixed[8:], credit)
	seal(answer[start:])
	return answer
}

// fail sends the error frame, if the client did something wrong, and ends the connection.
func (c *connection) fail(sequence uint64, err error) {
	var wrong *failure
	switch {
	case errors.As(err, &wrong):
	case errors.Is(err, os.ErrDeadlineExceeded) && (c.sequence == 0 || c.reader.Buffered() > 0):
		wrong = &failure{codeSlow, "no complete frame in time"}
	case errors.Is(err, os.ErrDeadlineExceeded):
		wrong = &failure{codeIdle, "no frame in time"}
	default:
		return // It left.
	}
	answer, fixed, _ := begin(nil, kindError, sequence, errorFixed, 0, 0)
	binary.LittleEndian.PutUint16(fixed, wrong.code)
	binary.LittleEndian.PutUint16(fixed[2:], uint16(len(wrong.text)))
	c.writer.Write(seal(append(answer, wrong.text...)))
	c.flush()
	// Closing with unread bytes resets the connection, and the error would be lost.
	if tcp, ok := c.conn.Conn.(*net.TCPConn); ok && tcp.CloseWrite() == nil {
		tcp.SetReadDeadline(time.Now().Add(lingerWithin))
		io.Copy(io.Discard, tcp)
	}
}
