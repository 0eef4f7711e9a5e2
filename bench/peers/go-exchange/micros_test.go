package main

import (
	"encoding/json"
	"testing"
)

func TestPricesRoundBidsDownAndFloorsUp(t *testing.T) {
	const bad = -1
	for _, row := range []struct {
		text       string
		bid, floor micros
	}{
		{"0", 0, 0},
		{"1", 1_000_000, 1_000_000},
		{"2.345", 2_345_000, 2_345_000},
		{"0.0000015", 1, 2},
		{"0.0000001", 0, 1},
		{"0.1", 100_000, 100_000},
		{"25e-1", 2_500_000, 2_500_000},
		{"1.5E+2", 150_000_000, 150_000_000},
		{"1e-30", 0, 1},
		{"9223372036854.775807", 9223372036854775807, 9223372036854775807},
		{"9223372036854.7758071", 9223372036854775807, bad},
		{"9223372036854.775808", bad, bad},
		{"1e31", bad, bad},
		{"-1", bad, bad},
	} {
		check := func(name string, parse func(json.Number) (micros, error), want micros) {
			got, err := parse(json.Number(row.text))
			if err != nil {
				got = bad
			}
			if got != want {
				t.Errorf("%s %s: got %d, want %d", name, row.text, got, want)
			}
		}
		check("bid", bidMicros, row.bid)
		check("floor", floorMicros, row.floor)
	}
}

func TestPricesAreWrittenAsDecimals(t *testing.T) {
	for price, want := range map[micros]json.Number{
		0: "0", 1: "0.000001", 1_000_000: "1", 2_345_000: "2.345", 10_010_000: "10.01",
	} {
		if got := price.number(); got != want {
			t.Errorf("%d: got %s, want %s", price, got, want)
		}
	}
}
