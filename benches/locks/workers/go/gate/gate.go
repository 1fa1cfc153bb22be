// Package gate contains the common parts of the Go workers: the task, the gate, and the line
// protocol.
package gate

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Task is a worker's task.
type Task struct {
	Hosts      string
	Path       string
	Op         string
	Kind       string
	Clients    int
	Contenders int
	Each       bool
	Held       int
	Latencies  bool
	Period     float64
}

// Must exits if there is an error.
func Must(err error) {
	if err != nil {
		panic(err)
	}
}

// ReadTask reads the first argument, in JSON.
func ReadTask() (given Task) {
	Must(json.Unmarshal([]byte(os.Args[1]), &given))
	return given
}

// LockPath returns the path of a contender's lock.
func (given Task) LockPath(contender int) string {
	if given.Each {
		return path.Join(given.Path, strconv.Itoa(contender))
	}
	return given.Path
}

// ClientHosts returns the server of a client. If latencies are measured, the clients are distributed
// over the servers in a fixed order, because the distance to the leader changes latencies.
func (given Task) ClientHosts(client int) string {
	if !given.Latencies {
		return given.Hosts
	}
	each := strings.Split(given.Hosts, ",")
	return each[client%len(each)]
}

// Gate stops contenders between two measurements. While the gate is closed, the holder keeps its
// lock, so the other contenders are idle too.
type Gate struct {
	mutex  sync.Mutex
	opened chan struct{}
	isOpen atomic.Bool
	pairs  atomic.Int64
	// Number of contenders that wait for the gate.
	parked    atomic.Int64
	latencies *latencies
}

// New returns a closed gate.
func New(given Task) *Gate {
	gate := &Gate{opened: make(chan struct{})}
	if given.Latencies {
		gate.latencies = newLatencies(given)
	}
	return gate
}

// Pass returns when the gate is open.
func (gate *Gate) Pass() {
	for !gate.isOpen.Load() {
		gate.mutex.Lock()
		opened := gate.opened
		gate.mutex.Unlock()
		gate.parked.Add(1)
		<-opened
		gate.parked.Add(-1)
	}
}

// Done counts a pair of acquire and release.
func (gate *Gate) Done() {
	gate.pairs.Add(1)
}

func (gate *Gate) count(seconds float64) {
	before, began := gate.pairs.Load(), time.Now()
	if gate.latencies != nil {
		gate.latencies.begin()
	}
	gate.isOpen.Store(true)
	close(gate.opened)
	time.Sleep(time.Duration(seconds * float64(time.Second)))
	gate.mutex.Lock()
	gate.opened = make(chan struct{})
	gate.isOpen.Store(false)
	gate.mutex.Unlock()
	told := map[string]any{"count": gate.pairs.Load() - before, "seconds": time.Since(began).Seconds()}
	if gate.latencies != nil {
		gate.settle()
		told["latencies"] = gate.latencies.take()
	}
	tell(told)
}

// settle waits until the operation that was in progress at the end of a turn is complete: its holder
// waits for the gate. Without this, a turn would usually lose its longest latency.
func (gate *Gate) settle() {
	end := time.Now().Add(settled)
	for gate.latencies.exclusive && gate.parked.Load() == 0 && time.Now().Before(end) {
		time.Sleep(time.Millisecond)
	}
}

func tell(fields map[string]any) {
	text, err := json.Marshal(fields)
	Must(err)
	fmt.Println(string(text))
}

// Serve reports that the worker is ready, and follows the driver's commands until `stop`.
func (gate *Gate) Serve(version string) {
	tell(map[string]any{"ready": version})
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		text, isCount := strings.CutPrefix(lines.Text(), "count ")
		if !isCount {
			return
		}
		seconds, err := strconv.ParseFloat(text, 64)
		Must(err)
		gate.count(seconds)
	}
}

// Version returns the name and version of a module in this program.
func Version(module string) string {
	if info, known := debug.ReadBuildInfo(); known {
		for _, dependency := range info.Deps {
			if dependency.Path == module {
				return module + " " + dependency.Version
			}
		}
	}
	return module
}
