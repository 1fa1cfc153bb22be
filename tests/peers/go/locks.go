package main

import (
	"errors"
	"path"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

var errNotConnected = errors.New("not connected in time")

// lock is a lock object and its connection.
type lock struct {
	*zk.Lock
	conn *zk.Conn
}

func codeOf(err error) string {
	if errors.Is(err, zk.ErrNotLocked) {
		return "NOT_HELD"
	}
	return ""
}

// connect waits for the session. zk.Connect returns earlier.
func connect(hosts string, session, wait time.Duration) (*zk.Conn, error) {
	conn, events, err := zk.Connect(strings.Split(hosts, ","), session, zk.WithLogInfo(false))
	if err != nil {
		return nil, err
	}
	late := time.After(wait)
	for {
		select {
		case event := <-events:
			if event.State == zk.StateHasSession {
				return conn, nil
			}
		case <-late:
			conn.Close()
			return nil, errNotConnected
		}
	}
}

func newLock(conn *zk.Conn, directory string) *lock {
	return &lock{zk.NewLock(conn, directory, zk.WorldACL(zk.PermAll)), conn}
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
