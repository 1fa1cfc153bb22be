package main

import (
	"encoding/json"
	"os"
	"reflect"
	"sync"
	"syscall"
	"unsafe"
)

// command is a command of the test suite, with the fields of worker-protocol.md.
type command struct {
	ID             int64      `json:"id"`
	Cmd            string     `json:"cmd"`
	Client         string     `json:"client"`
	Hosts          string     `json:"hosts"`
	SessionTimeout *float64   `json:"session_timeout"`
	ConnectTimeout *float64   `json:"connect_timeout"`
	Lock           string     `json:"lock"`
	Path           string     `json:"path"`
	Kind           string     `json:"kind"`
	Reentrant      *bool      `json:"reentrant"`
	Lease          string     `json:"lease"`
	Owner          string     `json:"owner"`
	Timeout        any        `json:"timeout"`
	Owners         int        `json:"owners"`
	Objects        string     `json:"objects"`
	Rounds         int        `json:"rounds"`
	First          int        `json:"first"`
	Count          int        `json:"count"`
	HoldMs         [2]float64 `json:"hold_ms"`
}

// line is a line that a worker writes.
type line map[string]any

var output sync.Mutex

// now reads CLOCK_MONOTONIC, the clock that all processes of a machine share. Package time does not expose it.
func now() int64 {
	const monotonic = 1
	var at syscall.Timespec
	_, _, failure := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, monotonic, uintptr(unsafe.Pointer(&at)), 0)
	if failure != 0 {
		panic(failure)
	}
	return at.Nano()
}

// emit writes one whole line. It adds a stamp if the line has none.
func emit(event string, fields line) {
	written := line{"event": event, "t": now()}
	for name, value := range fields {
		written[name] = value
	}
	text, err := json.Marshal(written)
	if err != nil {
		panic(err)
	}
	output.Lock()
	defer output.Unlock()
	if _, err := os.Stdout.Write(append(text, '\n')); err != nil {
		os.Exit(1)
	}
}

// answer replies to a command.
func answer(asked command, event string, fields line) {
	answered := line{"id": asked.ID}
	for name, value := range fields {
		answered[name] = value
	}
	emit(event, answered)
}

// fail replies that a command has failed, with zklock's code for the error if there is one.
func fail(asked command, err error) {
	fields := line{"type": reflect.TypeOf(err).String(), "message": err.Error()}
	if code := codeOf(err); code != "" {
		fields["code"] = code
	}
	answer(asked, "error", fields)
}
