package main

import (
	"fmt"
	"sort"
	"strings"

	"github.com/anishathalye/porcupine"
)

// rule is a set of rules that a step of the model must not break.
type rule int

const (
	overlap rule = 1 << iota
	tooManyPermits
	tokenFell
	turnStolen
	nodeForTwo
	heldPastItsEnd
	everyRule = overlap | tooManyPermits | tokenFell | turnStolen | nodeForTwo | heldPastItsEnd
)

var ruleNames = map[rule]string{
	overlap:        "overlap",
	tooManyPermits: "too many permits",
	tokenFell:      "token fell",
	turnStolen:     "turn stolen",
	nodeForTwo:     "one node for two",
	heldPastItsEnd: "held past its end",
}

// ruleOf maps each rank to its rule.
var ruleOf = [keys]rule{byNumber: turnStolen, byToken: tokenFell}

// action is what an operation does.
type action string

const (
	acquires action = "acquire"
	releases action = "release"
	// loses: the session of a hold ended, or its owner learned of the loss. The hold is over from this moment,
	// even if its owner continues to work.
	loses action = "lose"
	// claims: an owner is granted the lock through a node.
	claims action = "claim"
)

// operation is the input of a step.
type operation struct {
	does action
	hold *hold
}

// state is the immutable state of one lock: its holders, and the number of grants.
type state struct {
	holders []*hold
	lost    []*hold
	claimed *hold
	granted [keys]granted
}

// granted counts the granted holds with a rank.
type granted struct{ writers, readers int }

// modelOf returns the model of a lock with these rules.
func modelOf(rules rule) porcupine.Model {
	return porcupine.Model{
		Init: func() interface{} { return state{} },
		Step: func(before, input, _ interface{}) (bool, interface{}) {
			return step(before.(state), input.(operation), rules)
		},
		Equal: func(one, other interface{}) bool { return equal(one.(state), other.(state)) },
		DescribeOperation: func(input, _ interface{}) string {
			return string(input.(operation).does) + " " + input.(operation).hold.short()
		},
		DescribeOperationMetadata: func(of interface{}) string { return of.(*hold).String() },
		DescribeState:             func(now interface{}) string { return describe(now.(state)) },
	}
}

func step(before state, input operation, rules rule) (bool, state) {
	one := input.hold
	switch input.does {
	case claims:
		return before.claimed == nil || rules&nodeForTwo == 0, state{claimed: one}
	case loses:
		after := before
		after.lost = with(before.lost, one)
		return !has(before.holders, one) || rules&heldPastItsEnd == 0, after
	case releases:
		after := before
		after.holders = without(before.holders, one)
		return has(before.holders, one), after
	case acquires:
		if rules&heldPastItsEnd != 0 && has(before.lost, one) {
			return false, before
		}
		if one.permit {
			return acquirePermit(before, one, rules)
		}
		return acquireLock(before, one, rules)
	default:
		panic("unknown action " + input.does)
	}
}

func acquirePermit(before state, one *hold, rules rule) (bool, state) {
	after := before
	after.holders = with(before.holders, one)
	if rules&tooManyPermits == 0 || one.capacity == nil {
		return true, after
	}
	if one.Permits != nil && *one.Permits != *one.capacity {
		return false, before
	}
	return len(after.holders) <= *one.capacity, after
}

func acquireLock(before state, one *hold, rules rule) (bool, state) {
	if rules&overlap != 0 {
		for _, holder := range before.holders {
			together := holder.reads && one.reads
			itsWriter := one.beside && holder == one.writer
			if !together && !itsWriter {
				return false, before
			}
		}
	}
	after := before
	after.holders = with(before.holders, one)
	for key, rank := range one.ranks {
		if !rank.known {
			continue
		}
		granted := before.granted[key]
		isTurn := granted.writers == rank.writers && (one.reads || granted.readers == rank.readers)
		if rules&ruleOf[key] != 0 && !isTurn {
			return false, before
		}
		switch {
		case one.writer != nil:
			// The reader has its writer's place.
		case one.reads:
			after.granted[key].readers++
		default:
			after.granted[key].writers++
		}
	}
	if one.writer != nil && rules&tokenFell != 0 && one.Token != nil && one.writer.Token != nil {
		return *one.Token >= *one.writer.Token, after
	}
	return true, after
}

func equal(one, other state) bool {
	return one.granted == other.granted && one.claimed == other.claimed &&
		alike(one.holders, other.holders) && alike(one.lost, other.lost)
}

func alike(some, others []*hold) bool {
	if len(some) != len(others) {
		return false
	}
	for i := range some {
		if some[i] != others[i] {
			return false
		}
	}
	return true
}

// place returns the index of a hold in a sorted list, or the index at which to insert it.
func place(holds []*hold, one *hold) int {
	return sort.Search(len(holds), func(i int) bool { return holds[i].number >= one.number })
}

func has(holds []*hold, one *hold) bool {
	at := place(holds, one)
	return at < len(holds) && holds[at] == one
}

func with(holds []*hold, one *hold) []*hold {
	at := place(holds, one)
	grown := make([]*hold, 0, len(holds)+1)
	grown = append(grown, holds[:at]...)
	grown = append(grown, one)
	return append(grown, holds[at:]...)
}

func without(holds []*hold, one *hold) []*hold {
	rest := make([]*hold, 0, len(holds))
	for _, other := range holds {
		if other != one {
			rest = append(rest, other)
		}
	}
	return rest
}

func describe(now state) string {
	if now.claimed != nil {
		return "granted to " + now.claimed.String()
	}
	if len(now.holders) == 0 {
		return "free"
	}
	var holders []string
	for _, holder := range now.holders {
		holders = append(holders, fmt.Sprint(holder))
	}
	return "held by " + strings.Join(holders, " and ")
}
