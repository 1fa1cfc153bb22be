// The worker that uses the lock of etcd's own client.
package main

import (
	"context"
	"errors"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"zklock/benches/locks/go/gate"
)

// The session timeout of the other peers, in seconds.
const ttl = 10

var anywhere = context.Background()

func connect(hosts string) *clientv3.Client {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{hosts}})
	gate.Must(err)
	return client
}

// newLock creates a separate session, because contenders that share a session do not exclude each
// other.
func newLock(client *clientv3.Client, path string) *concurrency.Mutex {
	session, err := concurrency.NewSession(client, concurrency.WithTTL(ttl))
	gate.Must(err)
	return concurrency.NewMutex(session, path)
}

func pairs(gates *gate.Gate, lock *concurrency.Mutex) {
	watch := gates.Stopwatch()
	for {
		watch.Start()
		if lock.Lock(anywhere) != nil {
			return
		}
		watch.Acquired()
		gates.Pass()
		watch.Releasing()
		if lock.Unlock(anywhere) != nil {
			return
		}
		watch.Released()
		gates.Done()
	}
}

func tries(gates *gate.Gate, lock *concurrency.Mutex) {
	for {
		gates.Pass()
		if !errors.Is(lock.TryLock(anywhere), concurrency.ErrLocked) {
			return
		}
		gates.Done()
	}
}

func main() {
	task := gate.ReadTask()
	gates := gate.New(task)
	var clients []*clientv3.Client
	for client := 0; client <= task.Clients; client++ {
		clients = append(clients, connect(task.ClientHosts(client)))
	}
	if task.Held > 0 {
		gate.Must(newLock(clients[task.Clients], task.LockPath(0)).Lock(anywhere))
	}
	for contender := 0; contender < task.Clients*task.Contenders; contender++ {
		lock := newLock(clients[contender/task.Contenders], task.LockPath(contender))
		if task.Op == "try" {
			go tries(gates, lock)
		} else {
			go pairs(gates, lock)
		}
	}
	gates.Serve(gate.Version("go.etcd.io/etcd/client/v3"))
	for _, client := range clients {
		_ = client.Close()
	}
}
