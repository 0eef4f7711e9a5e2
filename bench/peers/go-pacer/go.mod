module vickrey/bench/peers/go-pacer

go 1.26
