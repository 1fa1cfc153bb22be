package main

import (
	"context"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

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

var anywhere = context.Background()

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
