package main

// increment is what a second-price winner pays above the runner-up.
const increment micros = 10_000

// atFirstPrice is the auction type in which the winner pays its bid; any other is second price.
const atFirstPrice = 1

// offer is a bid in the running, with its price and seat.
type offer struct {
	bid   bid
	seat  string
	dsp   int
	price micros
}

// rivals reports whether two offers come from different buyers: only another buyer's bid can set
// the price.
func (o *offer) rivals(other *offer) bool {
	return o.dsp != other.dsp || o.seat != other.seat
}

// offersOf picks the bids of one response that may win: right auction, currency, impression, and
// a price at or above the floor.
func offersOf(dsp int, response *bidResponse, auction string, floors map[string]micros) []offer {
	if response.ID != auction || (response.Cur != "" && response.Cur != currency) {
		return nil
	}
	var offers []offer
	for _, seat := range response.Seatbid {
		for _, b := range seat.Bid {
			price, err := bidMicros(b.Price)
			floor, known := floors[b.Impid]
			if err == nil && known && price > 0 && price >= floor {
				offers = append(offers, offer{bid: b, seat: seat.Seat, dsp: dsp, price: price})
			}
		}
	}
	return offers
}

// winnerOf clears one impression: the highest offer, none when nobody bid, and what it pays. Of
// equals the first to arrive wins.
func winnerOf(impid string, offers []offer, floor micros, at int) (*offer, micros) {
	var best *offer
	for i := range offers {
		if o := &offers[i]; o.bid.Impid == impid && (best == nil || o.price > best.price) {
			best = o
		}
	}
	if best == nil {
		return nil, 0
	}
	if at == atFirstPrice {
		return best, best.price
	}
	pays := floor
	for i := range offers {
		if o := &offers[i]; o.bid.Impid == impid && o.rivals(best) {
			// At most the winner's own bid, without a sum that could overflow.
			pays = max(pays, o.price+min(increment, best.price-o.price))
		}
	}
	return best, pays
}
