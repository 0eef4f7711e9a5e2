package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
)

const (
	subject     = "news"
	connectText = `CONNECT {"verbose":false,"pedantic":false,"lang":"go","version":"1","protocol":1}` + "\r\nPING\r\n"
	bufferBytes = 64 << 10
)

// client is one connection that speaks the protocol of NATS.
type client struct {
	conn   net.Conn
	reader *bufio.Reader
}

// dial connects, and waits until the server has accepted the client.
func dial(address string) (*client, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	c := &client{conn, bufio.NewReaderSize(conn, bufferBytes)}
	if err := c.command(connectText); err != nil {
		conn.Close()
		return nil, err
	}
	return c, nil
}

// command sends a text that ends with a ping, and waits for the pong.
func (c *client) command(text string) error {
	if _, err := io.WriteString(c.conn, text); err != nil {
		return err
	}
	for {
		body, isPong, err := c.next()
		switch {
		case err != nil:
			return err
		case isPong:
			return nil
		case body != nil:
			return errors.New("a message before the subscription is confirmed")
		}
	}
}

func (c *client) subscribe() error {
	return c.command("SUB " + subject + " 1\r\nPING\r\n")
}

// next waits for a line of the server. The body of a message is valid until the next call, and nil
// for other lines. Pings are answered.
func (c *client) next() (body []byte, isPong bool, err error) {
	line, err := c.reader.ReadSlice('\n')
	if err != nil {
		return nil, false, err
	}
	line = bytes.TrimRight(line, "\r\n")
	switch {
	case bytes.HasPrefix(line, []byte("MSG ")):
		body, err = c.body(line)
		return body, false, err
	case bytes.Equal(line, []byte("PING")):
		_, err = io.WriteString(c.conn, "PONG\r\n")
		return nil, false, err
	case bytes.Equal(line, []byte("PONG")):
		return nil, true, nil
	case bytes.HasPrefix(line, []byte("INFO ")), bytes.Equal(line, []byte("+OK")):
		return nil, false, nil
	}
	return nil, false, fmt.Errorf("the server says %q", line)
}

// body reads what follows the line of a message, whose last word is the length.
func (c *client) body(line []byte) ([]byte, error) {
	length, err := strconv.Atoi(string(line[bytes.LastIndexByte(line, ' ')+1:]))
	if err != nil || length < 0 || length > bufferBytes-2 {
		return nil, fmt.Errorf("no length of a message: %q", line)
	}
	whole, err := c.reader.Peek(length + 2)
	if err != nil {
		return nil, err
	}
	_, err = c.reader.Discard(length + 2) // which leaves the bytes in the buffer until the next read
	return whole[:length], err
}

// appendPublish appends the message `n`, which is due at this time.
func appendPublish(out []byte, bodyBytes int, n, dueMicros int64) []byte {
	out = append(out, "PUB "+subject+" "...)
	out = strconv.AppendInt(out, int64(bodyBytes), 10)
	out = append(out, "\r\n"...)
	start := len(out)
	out = append(out, `{"p":0,"n":`...)
	out = strconv.AppendInt(out, n, 10)
	out = append(out, `,"due_us":`...)
	out = strconv.AppendInt(out, dueMicros, 10)
	out = append(out, `,"filler":"`...)
	for len(out)-start < bodyBytes-2 {
		out = append(out, 'x')
	}
	return append(out, "\"}\r\n"...)
}

// numbers are those that appendPublish wrote into a body.
func numbers(body []byte) (n, dueMicros int64, err error) {
	rest, ok := bytes.CutPrefix(body, []byte(`{"p":0,"n":`))
	if ok {
		n, rest = digits(rest)
		rest, ok = bytes.CutPrefix(rest, []byte(`,"due_us":`))
	}
	if !ok {
		return 0, 0, fmt.Errorf("a message of another publisher: %q", body)
	}
	dueMicros, _ = digits(rest)
	return n, dueMicros, nil
}

func digits(text []byte) (number int64, rest []byte) {
	for len(text) > 0 && text[0] >= '0' && text[0] <= '9' {
		number = number*10 + int64(text[0]-'0')
		text = text[1:]
	}
	return number, text
}
