package main

import (
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
)

// maxWaiters limits the number of simultaneous waiters for a lock. If a history exceeds this limit,
// each acquire is treated as the single moment of its grant.
const maxWaiters = 12

// verdict is the result for one history.
type verdict struct {
	History  string   `json:"history"`
	Holds    int      `json:"holds"`
	Accepted bool     `json:"accepted"`
	Reasons  []reason `json:"reasons,omitempty"`
}

// reason is a rule that a lock's history breaks, with the first operation that the model cannot place in a
// valid order.
type reason struct {
	Path string `json:"path"`
	Rule string `json:"rule"`
	At   string `json:"at,omitempty"`
}

// part contains the holds that are checked together: the holds of one lock, or the holds of one node
// that was granted more than once.
type part struct {
	path  string
	holds []*hold
	nodes bool
}

// judge checks every lock of a history separately.
func judge(of *history, limit time.Duration) verdict {
	outcome := verdict{History: of.name, Holds: len(of.holds), Accepted: true}
	for _, part := range partsOf(of) {
		switch porcupine.CheckOperationsTimeout(modelOf(everyRule), part.operations(), limit) {
		case porcupine.Ok:
		case porcupine.Unknown:
			outcome.Accepted = false
			outcome.Reasons = append(outcome.Reasons, reason{Path: part.path, Rule: "undecided"})
		case porcupine.Illegal:
			outcome.Accepted = false
			outcome.Reasons = append(outcome.Reasons, part.reasons()...)
		}
	}
	return outcome
}

// partsOf groups the holds by lock and ranks them.
func partsOf(of *history) []*part {
	type lock struct {
		path   string
		permit bool
	}
	type node struct{ path, node string }
	locks, nodes := map[lock]*part{}, map[node][]*hold{}
	var found []*part
	ordered := append([]*hold(nil), of.holds...)
	sort.SliceStable(ordered, func(i, j int) bool { return ordered[i].Granted < ordered[j].Granted })
	for _, one := range ordered {
		of := lock{one.Path, one.permit}
		if locks[of] == nil {
			locks[of] = &part{path: one.Path}
			found = append(found, locks[of])
		}
		locks[of].holds = append(locks[of].holds, one)
		if one.Node != "" {
			through := node{one.Path, one.Node}
			nodes[through] = append(nodes[through], one)
		}
	}
	for is, part := range locks {
		if is.permit {
			setCapacity(part.holds)
		} else {
			setRanks(part.holds, of.restarts[is.path])
		}
	}
	for through, holds := range nodes {
		if len(holds) > 1 {
			found = append(found, &part{path: through.path, holds: holds, nodes: true})
		}
	}
	return found
}

// setCapacity sets the semaphore's number of permits in every hold. All contenders that know this
// number must agree.
func setCapacity(holds []*hold) {
	var capacity *int
	for _, one := range holds {
		if capacity == nil {
			capacity = one.Permits
		}
	}
	for _, one := range holds {
		one.capacity = capacity
	}
}

// operations returns a part's operations, each with the interval in which it took effect. An acquire
// took effect between the request and the grant. A release is a single moment: README.md explains why.
func (of *part) operations() []porcupine.Operation {
	if of.waiting() > maxWaiters {
		return of.points()
	}
	return of.timed(func(one *hold) int64 {
		if one.Asked == nil || *one.Asked > one.Granted {
			return one.Granted
		}
		return *one.Asked
	})
}

// points returns the same operations, but each acquire happens at the moment of its grant. Porcupine
// rejects the same histories in both forms.
func (of *part) points() []porcupine.Operation {
	return of.timed(func(one *hold) int64 { return one.Granted })
}

func (of *part) timed(asked func(*hold) int64) []porcupine.Operation {
	var found []porcupine.Operation
	add := func(does action, one *hold, from, to int64) {
		input := operation{does: does, hold: one}
		found = append(found, porcupine.Operation{
			ClientId: one.client, Input: input, Call: from, Return: to, Metadata: one,
		})
	}
	for _, one := range of.holds {
		if of.nodes {
			add(claims, one, one.Granted, one.Granted)
			continue
		}
		add(acquires, one, asked(one), one.Granted)
		if one.Ended != nil {
			add(releases, one, *one.Ended, *one.Ended)
		}
		if one.Over != nil {
			add(loses, one, *one.Over, *one.Over)
		}
	}
	return found
}

// waiting returns the maximum number of simultaneous waiters for the lock.
func (of *part) waiting() int {
	type change struct {
		at int64
		by int
	}
	var changes []change
	for _, one := range of.holds {
		if one.Asked != nil && *one.Asked < one.Granted {
			changes = append(changes, change{*one.Asked, 1}, change{one.Granted, -1})
		}
	}
	sort.Slice(changes, func(i, j int) bool { return changes[i].at < changes[j].at })
	now, most := 0, 0
	for _, change := range changes {
		now += change.by
		most = max(most, now)
	}
	return most
}

// reasons returns the rules that a rejected part breaks. Each rule is checked separately.
func (of *part) reasons() []reason {
	var found []reason
	for broken := overlap; broken <= heldPastItsEnd; broken <<= 1 {
		result, info := porcupine.CheckOperationsVerbose(modelOf(broken), of.points(), 0)
		if result == porcupine.Illegal {
			found = append(found, reason{Path: of.path, Rule: ruleNames[broken], At: stuck(of.points(), info)})
		}
	}
	if found == nil {
		found = append(found, reason{Path: of.path, Rule: "all rules together"})
	}
	return found
}

// stuck describes the first operation that is in no linearization.
func stuck(operations []porcupine.Operation, info porcupine.LinearizationInfo) string {
	placed := map[operation]bool{}
	for _, part := range info.PartialLinearizationsOperations() {
		for _, some := range part {
			for _, one := range some {
				placed[one.Input.(operation)] = true
			}
		}
	}
	first := porcupine.Operation{Return: int64(^uint64(0) >> 1)}
	for _, one := range operations {
		if !placed[one.Input.(operation)] && one.Return < first.Return {
			first = one
		}
	}
	if first.Input == nil {
		return ""
	}
	broken := first.Input.(operation)
	return string(broken.does) + " " + broken.hold.String()
}
