package main

import (
	"math"
	"sync"
	"time"
)

const (
	lifetime   = 15 * time.Second // the only one: whatever a request names, it gets this
	lateWindow = 15 * time.Second // how long after its expiry a reservation can be settled
)

// Results of a settlement.
const (
	resultBooked        = 0
	resultBookedLate    = 1
	resultReleased      = 2
	resultAlreadyBooked = 3
	resultAlreadyEnded  = 4
	resultRejected      = 6
	resultTooOld        = 7
	resultInvalid       = 8
)

const (
	outcomeWon  = 1
	outcomeLost = 2
)

type state uint8

const (
	stateOpen state = iota
	stateReleased
	stateWon
)

// reservation is 16 bytes without pointers, since a busy campaign holds millions.
type reservation struct {
	amount    int64  // nanos
	expiresMs uint32 // since the server's start
	state     state
}

// campaign is a budget and its reservations. Money in nanos. The rest of the budget,
// budget - reserved - spent, is free; late and excessive wins can make it negative.
type campaign struct {
	mutex    sync.Mutex
	budget   int64
	reserved int64
	spent    int64
	// In order of their sequence, and thus of their expiry. first is the sequence of
	// reservations[0]; those before unexpired have expired.
	reservations []reservation
	first        uint64
	unexpired    int
}

// reserve takes this amount out of the free money and returns the reservation's sequence.
func (c *campaign) reserve(amount int64, nowMs uint32) (sequence uint64, ok bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.expire(nowMs)
	if amount > c.budget-c.reserved-c.spent {
		return 0, false
	}
	c.reserved += amount
	sequence = c.first + uint64(len(c.reservations))
	expiresMs := nowMs + uint32(lifetime.Milliseconds())
	if n := len(c.reservations); n > 0 {
		// Another goroutine may have read the clock after us and locked before us.
		expiresMs = max(expiresMs, c.reservations[n-1].expiresMs)
	}
	c.reservations = append(c.reservations, reservation{amount: amount, expiresMs: expiresMs})
	return sequence, true
}

// settle ends a reservation whose token has been verified.
func (c *campaign) settle(sequence uint64, outcome byte, cost uint64, nowMs uint32) byte {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.expire(nowMs)
	if sequence < c.first {
		return resultTooOld
	}
	r := &c.reservations[sequence-c.first]
	if outcome == outcomeLost {
		if r.state != stateOpen {
			return resultAlreadyEnded
		}
		c.reserved -= r.amount
		r.state = stateReleased
		return resultReleased
	}
	if r.state == stateWon {
		return resultAlreadyBooked
	}
	if cost > uint64(math.MaxInt64-c.spent-c.reserved) {
		return resultInvalid // The sums would overflow.
	}
	result := byte(resultBookedLate)
	if r.state == stateOpen {
		c.reserved -= r.amount
		result = resultBooked
	}
	c.spent += int64(cost)
	r.state = stateWon
	return result
}

// expire returns the money of what has expired, and forgets what is past the late window.
func (c *campaign) expire(nowMs uint32) {
	for c.unexpired < len(c.reservations) && c.reservations[c.unexpired].expiresMs <= nowMs {
		if r := &c.reservations[c.unexpired]; r.state == stateOpen {
			c.reserved -= r.amount
			r.state = stateReleased
		}
		c.unexpired++
	}
	window := uint32(lateWindow.Milliseconds())
	for c.unexpired > 0 && c.reservations[0].expiresMs+window <= nowMs {
		// The append that next outgrows the array copies only the rest.
		c.reservations = c.reservations[1:]
		c.first++
		c.unexpired--
	}
}
