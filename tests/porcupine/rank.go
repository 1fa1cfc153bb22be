package main

import "sort"

// This file ranks holds. A queue serves contenders in order. The server numbers their nodes in that order, and the
// tokens are the ids of the transactions that created the nodes. Therefore both the numbers and the tokens give every
// hold a rank: the number of conflicting holds that must be granted before it. The model accepts the grant of a hold
// when exactly that many conflicting holds were granted.
const (
	byNumber = iota
	byToken
	keys
)

// rank is the number of writers and of readers that must be granted before a hold. known is false if the hold has no
// sequence number (or, in the rank by token, no token).
type rank struct {
	known            bool
	writers, readers int
}

// lookup returns a hold's number or token.
func lookup(key int, one *hold, restarts bool) *int64 {
	if key == byToken {
		return one.Token
	}
	if restarts {
		// The server can remove an idle directory. Then the numbers restart, so only the tokens define the order.
		return nil
	}
	return one.sequence()
}

// setRanks ranks the holds of one lock that is not a semaphore. The holds are in the order of their grants.
func setRanks(holds []*hold, restarts bool) {
	pairDowngrades(holds)
	for key := 0; key < keys; key++ {
		var writers, readers []int64
		for _, one := range holds {
			if value := lookup(key, one, restarts); value != nil && one.writer == nil {
				if one.reads {
					readers = append(readers, *value)
				} else {
					writers = append(writers, *value)
				}
			}
		}
		ascending(writers)
		ascending(readers)
		for _, one := range holds {
			value := lookup(key, one, restarts)
			one.ranks[key] = rank{}
			if value == nil || one.writer != nil {
				continue
			}
			// If two holds have equal values, the rank of each counts the other. The model then accepts neither.
			one.ranks[key] = rank{known: true, writers: upTo(writers, *value)}
			if !one.reads {
				one.ranks[key].writers--
				one.ranks[key].readers = upTo(readers, *value)
			}
		}
	}
	for _, one := range holds {
		if one.writer != nil {
			one.ranks = one.writer.ranks
			for key := range one.ranks {
				one.ranks[key].writers++
			}
		}
	}
}

// pairDowngrades finds the downgrades: a reader that has the owner and the sequence number of an earlier writer.
func pairDowngrades(holds []*hold) {
	type owner struct{ worker, owner string }
	writers := map[owner]*hold{}
	for _, one := range holds {
		by := owner{one.Worker, one.Owner}
		one.writer, one.beside = nil, false
		if !one.reads {
			writers[by] = one
			continue
		}
		writer := writers[by]
		if writer == nil || !same(one.sequence(), writer.sequence()) {
			continue
		}
		if writer.Ended == nil || one.Granted < *writer.Ended {
			one.writer, one.beside = writer, true
		} else if same(one.Session, writer.Session) && same(one.Token, writer.Token) {
			// The writer's hold ended before the reader was granted the lock, but the reader's node already existed.
			one.writer = writer
		}
	}
}

func ascending(values []int64) {
	sort.Slice(values, func(i, j int) bool { return values[i] < values[j] })
}

// upTo returns the number of values that are not greater than the given one.
func upTo(values []int64, value int64) int {
	return sort.Search(len(values), func(i int) bool { return values[i] > value })
}
