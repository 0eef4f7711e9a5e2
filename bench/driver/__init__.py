"""The driver of `bench/run.py`. `figures` computes, `machine` reads the machine, `programs` starts
and stops processes, `scenarios` measures, `report` writes results."""
