package main

import (
	"errors"
	"path"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

var errNotConnected = errors.New("not connected in time")

// pause is the time between two tries to release a lock.
const pause = 10 * time.Millisecond

// client is a connection. The library does not report whether it was closed.
type client struct {
	*zk.Conn
	closed atomic.Bool
}

func (conn *client) close() {
	conn.closed.Store(true)
	conn.Close()
}

// lock is a lock object and its client.
type lock struct {
	*zk.Lock
	conn *client
	path string
}

func codeOf(err error) string {
	if errors.Is(err, zk.ErrNotLocked) {
		return "NOT_HELD"
	}
	return ""
}

// connect waits for the session. zk.Connect returns earlier.
func connect(hosts string, session, wait time.Duration) (*client, error) {
	conn, events, err := zk.Connect(strings.Split(hosts, ","), session, zk.WithLogInfo(false))
	if err != nil {
		return nil, err
	}
	late := time.After(wait)
	for {
		select {
		case event := <-events:
			if event.State == zk.StateHasSession {
				return &client{Conn: conn}, nil
			}
		case <-late:
			conn.Close()
			return nil, errNotConnected
		}
	}
}

func newLock(conn *client, directory string) *lock {
	return &lock{zk.NewLock(conn.Conn, directory, zk.WorldACL(zk.PermAll)), conn, directory}
}

// unlock releases the lock. The recipe gives up if the connection is lost, and its node stays in the queue. Therefore
// unlock tries again until a server has answered.
func (held *lock) unlock() error {
	for first := true; ; first = false {
		err := held.Unlock()
		if !first && errors.Is(err, zk.ErrNoNode) {
			// An earlier try has deleted the node. The recipe's object still counts as locked.
			held.Lock = newLock(held.conn, held.path).Lock
			return nil
		}
		retry := errors.Is(err, zk.ErrConnectionClosed) || errors.Is(err, zk.ErrNoServer)
		if !retry || held.conn.closed.Load() {
			return err
		}
		time.Sleep(pause)
	}
}

// seen returns node, token and session of a held lock.
func (held *lock) seen() line {
	// The recipe does not expose the name of its node.
	node := reflect.ValueOf(held.Lock).Elem().FieldByName("lockPath").String()
	found := line{"node": path.Base(node), "session": strconv.FormatInt(held.conn.SessionID(), 10)}
	if exists, stat, err := held.conn.Exists(node); err == nil && exists {
		found["token"] = strconv.FormatInt(stat.Czxid, 10)
	}
	return found
}
