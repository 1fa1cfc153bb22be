package main

import "sort"

// A queue serves contenders in their order. The server numbers nodes in that order, and the tokens are the transactions
// that created them. So both give every hold a rank: how many holds with which it cannot share the lock were to be
// granted before it. The model grants a hold once exactly these were granted.
const (
	byNumber = iota
	byToken
	keys
)

// rank is how many writers and readers go before a hold; nil fields of a hold have no rank.
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
		// Numbers begin anew when an idle directory is removed. Tokens do not, and tell the order alone.
		return nil
	}
	return one.sequence()
}

// setRanks ranks the holds of one lock that is no semaphore. They are in the order of their grants.
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
			// Equal ones go before each other, so neither is granted.
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

// pairDowngrades finds the readers that stand in the place of their owner's writer.
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
			// The writer's half was over before the reader's was granted, whose node stood there all the while.
			one.writer = writer
		}
	}
}

func ascending(values []int64) {
	sort.Slice(values, func(i, j int) bool { return values[i] < values[j] })
}

// upTo counts the values that are not greater.
func upTo(values []int64, value int64) int {
	return sort.Search(len(values), func(i int) bool { return values[i] > value })
}
