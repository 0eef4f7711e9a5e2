module vickrey/crates/exchange/serve/tests/it/strangers/go-dsp

go 1.26
