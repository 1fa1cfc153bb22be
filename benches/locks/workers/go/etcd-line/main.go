// The worker of `tests/worker-protocol.md` that uses the lock of etcd's own client, for
// `make bench-failover`. It implements the commands `connect`, `lock`, `acquire`, `release`,
// `contend`, `close` and `exit`. Each lock object has a separate session, because contenders that
// share a session do not exclude each other. The worker repeats a release until a server has
// answered.
package main

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	clientv3 "go.etcd.io/etcd/client/v3"

	"zklock/benches/locks/go/gate"
)

type command struct {
	ID             int64      `json:"id"`
	Cmd            string     `json:"cmd"`
	Client         string     `json:"client"`
	Hosts          string     `json:"hosts"`
	SessionTimeout float64    `json:"session_timeout"`
	Lock           string     `json:"lock"`
	Path           string     `json:"path"`
	Lease          string     `json:"lease"`
	Rounds         int        `json:"rounds"`
	HoldMs         [2]float64 `json:"hold_ms"`
}

type line map[string]any

var (
	output  sync.Mutex
	names   sync.RWMutex
	clients = map[string]client{}
	locks   = map[string]lock{}
	leases  = map[string]lock{}
)

// now reads CLOCK_MONOTONIC, the clock that all processes of a machine share.
func now() int64 {
	const monotonic = 1
	var at syscall.Timespec
	_, _, failure := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, monotonic, uintptr(unsafe.Pointer(&at)), 0)
	if failure != 0 {
		panic(failure)
	}
	return at.Nano()
}

func emit(written line) {
	if _, stamped := written["t"]; !stamped {
		written["t"] = now()
	}
	text, err := json.Marshal(written)
	gate.Must(err)
	output.Lock()
	defer output.Unlock()
	if _, err := os.Stdout.Write(append(text, '\n')); err != nil {
		os.Exit(1)
	}
}

func put[T any](values map[string]T, name string, value T) {
	names.Lock()
	defer names.Unlock()
	values[name] = value
}

func get[T any](values map[string]T, name string) T {
	names.RLock()
	defer names.RUnlock()
	return values[name]
}

func perform(asked command) (line, error) {
	switch asked.Cmd {
	case "connect":
		made, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(asked.Hosts, ",")})
		if err != nil {
			return nil, err
		}
		put(clients, asked.Client, client{made, int(asked.SessionTimeout)})
		return line{"event": "connected", "session": "0"}, nil
	case "lock":
		made, err := newLock(get(clients, asked.Client), asked.Path)
		if err != nil {
			return nil, err
		}
		put(locks, asked.Lock, made)
		return line{"event": "ready"}, nil
	case "acquire":
		wanted := get(locks, asked.Lock)
		if err := wanted.Lock(anywhere); err != nil {
			return nil, err
		}
		granted := now()
		put(leases, asked.Lease, wanted)
		return line{"event": "acquired", "node": wanted.Key(), "t": granted}, nil
	case "release":
		began := now()
		if err := get(leases, asked.Lease).release(); err != nil {
			return nil, err
		}
		return line{"event": "released", "t0": began}, nil
	case "contend":
		return line{"event": "done", "count": asked.Rounds}, contend(asked)
	case "close":
		return line{"event": "closed"}, get(clients, asked.Client).Close()
	}
	return line{"event": "unsupported"}, nil
}

func main() {
	emit(line{"event": "ready", "surface": "etcd", "pid": os.Getpid()})
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var asked command
		gate.Must(json.Unmarshal(lines.Bytes(), &asked))
		if asked.Cmd == "exit" {
			emit(line{"id": asked.ID, "event": "bye"})
			return
		}
		go func() {
			done, err := perform(asked)
			if err != nil {
				done = line{"event": "error", "type": "etcd", "message": err.Error()}
			}
			done["id"] = asked.ID
			emit(done)
		}()
	}
}
