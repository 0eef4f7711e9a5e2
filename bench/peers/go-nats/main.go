// Command go-nats is a peer to measure the live feed against: `serve` is a NATS server, `load` its
// subscribers and one publisher at a constant rate.
//
// Core NATS delivers at most once. It keeps no log, so nothing can be resumed, and its frames carry
// only the subject and the body: no position, no time, no publisher. So its number flatters it
// beside the feed. It is not WebSocket, and its publisher sends bodies without JSON around them.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

const startWithin = 10 * time.Second

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) > 0 {
		switch arguments[0] {
		case "serve":
			return serve(arguments[1:])
		case "load":
			return load(arguments[1:])
		}
	}
	return errors.New("usage: go-nats serve|load [flags]; go-nats load -help lists them")
}

// serve runs a server until SIGTERM or SIGINT.
func serve(arguments []string) error {
	flags := flag.NewFlagSet("serve", flag.ExitOnError)
	listen := flags.String("listen", "127.0.0.1:0", "where clients connect; port 0 lets the kernel choose")
	flags.Parse(arguments)
	nats, err := start(*listen)
	if err != nil {
		return err
	}
	fmt.Println("listening on", nats.Addr())
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	<-stop
	nats.Shutdown()
	return nil
}

// start returns a server with the defaults of NATS that accepts connections.
func start(listen string) (*server.Server, error) {
	host, service, err := net.SplitHostPort(listen)
	if err != nil {
		return nil, err
	}
	port, err := strconv.Atoi(service)
	if err != nil {
		return nil, fmt.Errorf("-listen %s: the port is not a number", listen)
	}
	if port == 0 {
		port = server.RANDOM_PORT
	}
	nats, err := server.NewServer(&server.Options{Host: host, Port: port, NoLog: true, NoSigs: true})
	if err != nil {
		return nil, err
	}
	nats.Start()
	if !nats.ReadyForConnections(startWithin) {
		return nil, fmt.Errorf("the server does not listen on %s", listen)
	}
	return nats, nil
}

// load runs a load and prints its report as JSON.
func load(arguments []string) error {
	var options loadOptions
	flags := flag.NewFlagSet("load", flag.ExitOnError)
	flags.StringVar(&options.address, "address", "", "the server's `host:port`")
	flags.IntVar(&options.subscribers, "subscribers", 1, "connections that subscribe")
	flags.IntVar(&options.rate, "rate", 100, "messages per second")
	flags.IntVar(&options.bytes, "bytes", 200, "length of a body")
	seconds := flags.Int("seconds", 8, "measured time")
	warmUp := flags.Int("warm-up", 2, "`seconds` of load before it")
	flags.IntVar(&options.server, "server", 0, "process `id` of the server, for its CPU time")
	flags.Parse(arguments)
	options.measured, options.warmUp = time.Duration(*seconds)*time.Second, time.Duration(*warmUp)*time.Second
	if err := options.check(); err != nil {
		return err
	}
	report, err := measure(options)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(report)
}
