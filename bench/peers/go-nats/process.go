package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Clock ticks per second of /proc: fixed on Linux.
const ticksPerS = 100

// cpuMicros is the processor time of all threads of a process. Zero for no process.
func cpuMicros(id int) (int64, error) {
	if id == 0 {
		return 0, nil
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id))
	if err != nil {
		return 0, err
	}
	return statMicros(string(stat))
}

// statMicros is user and system time, the 14th and 15th field. The name may contain spaces.
func statMicros(stat string) (int64, error) {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("no times of a process: %q", stat)
	}
	user, errUser := strconv.ParseInt(fields[11], 10, 64)
	system, errSystem := strconv.ParseInt(fields[12], 10, 64)
	if errUser != nil || errSystem != nil {
		return 0, fmt.Errorf("no times of a process: %q", stat)
	}
	return (user + system) * 1_000_000 / ticksPerS, nil
}
