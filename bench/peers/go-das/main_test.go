package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// provider has two blocks of each dataset; it refuses some calls.
func provider(refuses func(call int64) bool) *httptest.Server {
	var calls atomic.Int64
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case refuses(calls.Add(1)):
			w.WriteHeader(http.StatusInternalServerError)
		case strings.HasPrefix(r.URL.Path, "/dids/"):
			fmt.Fprint(w, "{\"name\": \"x#0\"}\n{\"name\": \"x#1\"}\n")
		default:
			fmt.Fprint(w, "{\"rse\": \"a\"}\n{\"rse\": \"b\"}\n")
		}
	}))
}

func TestAllIsFound(t *testing.T) {
	server := provider(func(int64) bool { return false })
	defer server.Close()
	found := run(server.URL, 3, 2)
	if found.Calls != 9 || found.Attempts != 9 || found.Lacking != 0 {
		t.Fatalf("%+v", found)
	}
}

func TestARefusalIsReadAsData(t *testing.T) {
	server := provider(func(call int64) bool { return call == 2 })
	defer server.Close()
	found := run(server.URL, 1, 2)
	if found.Calls != found.Attempts || found.Lacking != 1 {
		t.Fatalf("%+v", found)
	}
}
