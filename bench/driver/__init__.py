"""The driver of `bench/run.py`. `figures` computes, `machine` reads the machine, `programs` starts
and ends processes, `scenarios` measures, `report` writes results down."""
