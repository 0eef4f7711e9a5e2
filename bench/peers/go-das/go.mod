module vickrey/bench/peers/go-das

go 1.26
