module vickrey/bench/peers/go-exchange

go 1.26
