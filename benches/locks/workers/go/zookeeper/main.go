// The worker that uses go-zookeeper's own lock recipe, which has neither a non-blocking acquire nor
// read locks.
package main

import (
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"zklock/benches/locks/go/gate"
)

func connect(hosts string) *zk.Conn {
	conn, events, err := zk.Connect(strings.Split(hosts, ","), 10*time.Second, zk.WithLogInfo(false))
	gate.Must(err)
	for event := range events {
		if event.State == zk.StateHasSession {
			break
		}
	}
	// The channel of events must be drained.
	go func() {
		for range events {
		}
	}()
	return conn
}

func pairs(gates *gate.Gate, lock *zk.Lock) {
	watch := gates.Stopwatch()
	for {
		watch.Start()
		if lock.Lock() != nil {
			// The error comes from closing the client.
			return
		}
		watch.Acquired()
		gates.Pass()
		watch.Releasing()
		if lock.Unlock() != nil {
			return
		}
		watch.Released()
		gates.Done()
	}
}

func main() {
	task := gate.ReadTask()
	gates := gate.New(task)
	var clients []*zk.Conn
	for client := 0; client < task.Clients; client++ {
		clients = append(clients, connect(task.ClientHosts(client)))
	}
	for contender := 0; contender < task.Clients*task.Contenders; contender++ {
		client := clients[contender/task.Contenders]
		// A lock object is not safe for several goroutines.
		go pairs(gates, zk.NewLock(client, task.LockPath(contender), zk.WorldACL(zk.PermAll)))
	}
	gates.Serve(gate.Version("github.com/go-zookeeper/zk"))
	for _, client := range clients {
		client.Close()
	}
}
