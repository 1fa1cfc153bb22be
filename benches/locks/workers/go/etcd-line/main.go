// The worker of `tests/worker-protocol.md` that uses the lock of etcd's own client, for
// `make bench-failover`. It implements the commands `connect`, `lock`, `acquire`, `release`,
// `contend`, `close` and `exit`. Each lock object has a separate session, because contenders that
// share a session do not exclude each other. The worker repeats a release until a server has
// answered.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

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

// pause is the time between two tries.
const pause = time.Millisecond

// client is a client with the lifetime of its locks in seconds.
type client struct {
	*clientv3.Client
	ttl int
}

func (of client) isClosed() bool {
	return of.Ctx().Err() != nil
}

// lock is a lock object with its session and client.
type lock struct {
	*concurrency.Mutex
	session *concurrency.Session
	of      client
}

var (
	anywhere = context.Background()
	output   sync.Mutex
	names    sync.RWMutex
	clients  = map[string]client{}
	locks    = map[string]lock{}
	leases   = map[string]lock{}
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

func newLock(of client, path string) (lock, error) {
	session, err := concurrency.NewSession(of.Client, concurrency.WithTTL(of.ttl))
	if err != nil {
		return lock{}, err
	}
	return lock{concurrency.NewMutex(session, path), session, of}, nil
}

// isOver reports whether the session has ended. Until then, the lock object can use its key again.
func (held lock) isOver() bool {
	select {
	case <-held.session.Done():
		return true
	default:
		return held.of.isClosed()
	}
}

// release repeats the release until a server has answered or the client is closed.
func (held lock) release() error {
	for {
		err := held.Unlock(anywhere)
		if err == nil || held.of.isClosed() {
			return err
		}
		time.Sleep(pause)
	}
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

// contend acquires and releases a lock repeatedly. It tries again after an error, until the client is closed.
func contend(asked command) error {
	of := get(clients, asked.Client)
	for turn := 0; turn < asked.Rounds; {
		wanted, err := newLock(of, asked.Path)
		for err == nil && turn < asked.Rounds && !wanted.isOver() {
			if hold(asked, wanted, turn) == nil {
				turn++
			} else {
				time.Sleep(pause)
			}
		}
		if of.isClosed() {
			return of.Ctx().Err()
		}
		time.Sleep(pause)
	}
	return nil
}

// hold acquires the lock, holds it for a while and releases it.
func hold(asked command, wanted lock, turn int) error {
	if err := wanted.Lock(anywhere); err != nil {
		return err
	}
	granted := now()
	time.Sleep(time.Duration(asked.HoldMs[0] * float64(time.Millisecond)))
	ended := now()
	if err := wanted.release(); err != nil {
		return err
	}
	emit(line{
		"id": asked.ID, "event": "held", "lease": strconv.Itoa(turn), "owner": strconv.FormatInt(asked.ID, 10),
		"t": granted, "t_end": ended,
	})
	return nil
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
