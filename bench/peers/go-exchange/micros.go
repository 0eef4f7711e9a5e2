package main

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
)

// micros is a price: millionths of the currency unit for a thousand impressions.
type micros int64

var errPrice = errors.New("not a price")

// exponentMax bounds the exponent of a decimal, and so the digits it can grow to.
const exponentMax = 30

// Bids round down and floors round up, so nobody sells below a floor or pays above a bid.
func bidMicros(number json.Number) (micros, error) {
	price, _, err := parseMicros(string(number))
	return price, err
}

func floorMicros(number json.Number) (micros, error) {
	if number == "" {
		return 0, nil
	}
	price, exact, err := parseMicros(string(number))
	if err == nil && !exact {
		if price == math.MaxInt64 {
			return 0, errPrice
		}
		price++
	}
	return price, err
}

// parseMicros reads a JSON number without a detour through floating point. What lies below a
// micro is cut off, and exact says whether that was nothing.
func parseMicros(text string) (price micros, exact bool, err error) {
	mantissa, exponent := text, 0
	if at := strings.IndexAny(text, "eE"); at >= 0 {
		mantissa = text[:at]
		exponent, err = strconv.Atoi(text[at+1:])
		if err != nil || exponent < -exponentMax || exponent > exponentMax {
			return 0, false, errPrice
		}
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := whole + fraction
	// The number is digits × 10^-len(fraction) × 10^exponent; a micro is 10^-6.
	shift := 6 + exponent - len(fraction)
	cut := ""
	if shift >= 0 {
		digits += strings.Repeat("0", shift)
	} else {
		digits = strings.Repeat("0", -shift) + digits
		digits, cut = digits[:len(digits)+shift], digits[len(digits)+shift:]
	}
	value, err := strconv.ParseUint(digits, 10, 63)
	if err != nil {
		return 0, false, errPrice
	}
	return micros(value), strings.Trim(cut, "0") == "", nil
}

// number writes the price as a decimal, without needless zeros.
func (m micros) number() json.Number {
	whole := strconv.FormatInt(int64(m)/1_000_000, 10)
	fraction := strings.TrimRight(strconv.FormatInt(1_000_000+int64(m)%1_000_000, 10)[1:], "0")
	if fraction == "" {
		return json.Number(whole)
	}
	return json.Number(whole + "." + fraction)
}
