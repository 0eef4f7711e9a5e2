// Command go-dsp is a DSP on Go's net/http, as a Go engineer would write it: in clear text with
// HTTP/1.1 and HTTP/2 by prior knowledge, or under TLS with ALPN. It refuses all but HTTP/2, so
// that a bid proves the version. Its first server bids 1, the server after it 2, and so on.
//
// It prints its address, obeys these lines of standard input, and ends with it:
//
//	hold N    holds the next N requests: prints "holding", and "held" when the last one has come
//	release   answers what it holds
//	replace   starts another server on the same port, and shuts down the one before it; prints
//	          "replaced" once that one has answered all its requests and its connections are closed
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
)

func main() {
	certificate := flag.String("certificate", "", "a PEM `file`; with it, the DSP speaks TLS")
	key := flag.String("key", "", "the private key of the certificate, a PEM `file`")
	flag.Parse()
	if err := run(*certificate, *key); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(certificate, key string) error {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	dsp := &dsp{listener: listener.(*net.TCPListener), certificate: certificate, key: key}
	if err := dsp.start(); err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if err := dsp.obey(lines.Text()); err != nil {
			return err
		}
	}
	return lines.Err()
}

type dsp struct {
	// Never accepts: each server has a copy of its socket, and closes that when it shuts down.
	listener         *net.TCPListener
	certificate, key string
	server           *http.Server
	servers          int

	mutex sync.Mutex
	// How many more requests to hold, until released is closed.
	toHold   int
	released chan struct{}
}

func (d *dsp) obey(line string) error {
	var count int
	if _, err := fmt.Sscanf(line, "hold %d", &count); err == nil {
		d.mutex.Lock()
		defer d.mutex.Unlock()
		d.toHold, d.released = count, make(chan struct{})
		fmt.Println("holding")
		return nil
	}
	switch line {
	case "release":
		close(d.released)
		return nil
	case "replace":
		last := d.server
		if err := d.start(); err != nil {
			return err
		}
		go func() {
			if err := last.Shutdown(context.Background()); err != nil {
				fmt.Fprintln(os.Stderr, "error:", err)
				return
			}
			fmt.Println("replaced")
		}()
		return nil
	}
	return fmt.Errorf("%q: expected hold N, release or replace", line)
}

// start starts another server on the port.
func (d *dsp) start() error {
	file, err := d.listener.File()
	if err != nil {
		return err
	}
	defer file.Close()
	listener, err := net.FileListener(file)
	if err != nil {
		return err
	}
	d.servers++
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: d.bid(d.servers), Protocols: &protocols}
	d.server = server
	go func() {
		err := d.serve(server, listener)
		if !errors.Is(err, http.ErrServerClosed) {
			fmt.Fprintln(os.Stderr, "error:", err)
		}
	}()
	return nil
}

func (d *dsp) serve(server *http.Server, listener net.Listener) error {
	if d.certificate == "" {
		return server.Serve(listener)
	}
	return server.ServeTLS(listener, d.certificate, d.key)
}

// bid bids a price on the first impression of each request.
func (d *dsp) bid(price int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			http.Error(w, r.Proto, http.StatusHTTPVersionNotSupported)
			return
		}
		var request struct {
			ID  string
			Imp []struct{ ID string }
		}
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(body, &request)
		}
		if err != nil || len(request.Imp) == 0 {
			http.Error(w, "expected a bid request", http.StatusBadRequest)
			return
		}
		d.wait()
		w.Header().Set("content-type", "application/json")
		const answer = `{"id":%q,"seatbid":[{"bid":[{"id":"b","impid":%q,"price":%d,` +
			`"adm":"<p>","crid":"c","w":300,"h":250}]}]}`
		fmt.Fprintf(w, answer, request.ID, request.Imp[0].ID, price)
	}
}

// wait waits for the release if the request is to be held.
func (d *dsp) wait() {
	d.mutex.Lock()
	if d.toHold == 0 {
		d.mutex.Unlock()
		return
	}
	d.toHold--
	if d.toHold == 0 {
		fmt.Println("held")
	}
	released := d.released
	d.mutex.Unlock()
	<-released
}
