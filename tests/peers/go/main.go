// Package main is the worker that uses go-zookeeper's own lock recipe. For each lease of the test suite, this
// worker creates a lock object. Any owner can hold the object, but not
// twice at the same time.
//
// The recipe has no timeout, no try and no cancellation. Commands that need one of them get the reply "unsupported".
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"sync"
	"time"
)

const control = "control"

// named is a map that many owners use at the same time.
type named[T any] struct {
	sync.Mutex
	values map[string]T
}

func (names *named[T]) put(name string, value T) {
	names.Lock()
	defer names.Unlock()
	if names.values == nil {
		names.values = map[string]T{}
	}
	names.values[name] = value
}

func (names *named[T]) get(name string) T {
	names.Lock()
	defer names.Unlock()
	return names.values[name]
}

var (
	clients named[*client]
	locks   named[*lock]
	leases  named[*lock]
	// unnamed has the locks without a name, which are held until the process ends.
	unnamed []*lock
)

func main() {
	emit("ready", line{"surface": "go", "pid": os.Getpid()})
	owners := map[string]chan command{}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var asked command
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		switch asked.Cmd {
		case "exit":
			closeAll()
			answer(asked, "bye", nil)
			return
		case "contend":
			go perform(asked)
		default:
			handOver(owners, asked)
		}
	}
	closeAll()
}

// handOver queues a command after the earlier commands of the same owner.
func handOver(owners map[string]chan command, asked command) {
	owner := asked.Owner
	if owner == "" {
		owner = control
	}
	commands, known := owners[owner]
	if !known {
		commands = make(chan command, 1024)
		owners[owner] = commands
		go func() {
			for next := range commands {
				perform(next)
			}
		}()
	}
	commands <- asked
}

func closeAll() {
	clients.Lock()
	defer clients.Unlock()
	for _, conn := range clients.values {
		conn.close()
	}
}

func perform(asked command) {
	if asked.Timeout != nil || (asked.Kind != "" && asked.Kind != "mutex") || asked.Reentrant != nil {
		answer(asked, "unsupported", nil)
		return
	}
	does := map[string]func(command) error{
		"connect": doConnect, "lock": doLock, "acquire": doAcquire, "release": doRelease,
		"contend": doContend, "hold": doHold, "close": doClose,
	}[asked.Cmd]
	if does == nil {
		answer(asked, "unsupported", nil)
	} else if err := does(asked); err != nil {
		fail(asked, err)
	}
}

func doConnect(asked command) error {
	conn, err := connect(asked.Hosts, seconds(asked.SessionTimeout), seconds(asked.ConnectTimeout))
	if err != nil {
		return err
	}
	clients.put(asked.Client, conn)
	answer(asked, "connected", line{"session": fmt.Sprint(conn.SessionID())})
	return nil
}

// seconds converts a timeout given by the test suite. The default is 10 s.
func seconds(given *float64) time.Duration {
	if given == nil {
		return 10 * time.Second
	}
	return time.Duration(*given * float64(time.Second))
}

func doLock(asked command) error {
	locks.put(asked.Lock, newLock(clients.get(asked.Client), asked.Path))
	answer(asked, "ready", nil)
	return nil
}

func doAcquire(asked command) error {
	wanted := locks.get(asked.Lock)
	if err := wanted.Lock.Lock(); err != nil {
		return err
	}
	granted := now()
	leases.put(asked.Lease, wanted)
	fields := wanted.seen()
	fields["t"] = granted
	answer(asked, "acquired", fields)
	return nil
}

func doRelease(asked command) error {
	started := now()
	if err := leases.get(asked.Lease).unlock(); err != nil {
		return err
	}
	answer(asked, "released", line{"t0": started})
	return nil
}

func doClose(asked command) error {
	clients.get(asked.Client).close()
	answer(asked, "closed", nil)
	return nil
}

// doHold acquires locks and keeps them. All commands of this kind have the same owner, so they run one after another.
func doHold(asked command) error {
	for number := asked.First; number < asked.First+asked.Count; number++ {
		one := newLock(clients.get(asked.Client), fmt.Sprintf("%s/%d", asked.Path, number))
		if err := one.Lock.Lock(); err != nil {
			return err
		}
		unnamed = append(unnamed, one)
	}
	answer(asked, "done", nil)
	return nil
}

// doContend lets many owners contend. Each has its own lock object, because the recipe's object is not safe
// for concurrent use by several goroutines.
func doContend(asked command) error {
	if asked.Objects == "shared" {
		answer(asked, "unsupported", nil)
		return nil
	}
	ended := make(chan error, asked.Owners)
	for number := 0; number < asked.Owners; number++ {
		go func(number int) { ended <- contend(asked, number) }(number)
	}
	var failure error
	for number := 0; number < asked.Owners; number++ {
		if err := <-ended; err != nil {
			failure = err
		}
	}
	if failure != nil {
		return failure
	}
	answer(asked, "done", line{"count": asked.Owners * asked.Rounds})
	return nil
}

// contend runs the rounds of one owner.
func contend(asked command, number int) error {
	wanted := newLock(clients.get(asked.Client), asked.Path)
	low, high := asked.HoldMs[0], asked.HoldMs[1]
	for turn := 0; turn < asked.Rounds; turn++ {
		waited := now()
		if err := wanted.Lock.Lock(); err != nil {
			return err
		}
		granted := now()
		fields := wanted.seen()
		time.Sleep(time.Duration((low + rand.Float64()*(high-low)) * float64(time.Millisecond)))
		fields["t"], fields["t_wait"], fields["t_end"] = granted, waited, now()
		if err := wanted.unlock(); err != nil {
			return err
		}
		fields["lease"] = fmt.Sprintf("%d-%d-%d", asked.ID, number, turn)
		fields["owner"] = fmt.Sprintf("%d-%d", asked.ID, number)
		answer(asked, "held", fields)
	}
	return nil
}
