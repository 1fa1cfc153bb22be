package main

import (
	"fmt"
	"math/rand"
	"testing"

	"github.com/anishathalye/porcupine"
)

// drawn creates a random history of one lock. The history can be valid or invalid.
func drawn(lot *rand.Rand, kinds []string) *history {
	of := &history{name: "drawn", restarts: map[string]bool{}}
	capacity, now := 2, int64(0)
	for place := 0; place < 7; place++ {
		number := int64(place)
		if lot.Intn(8) == 0 {
			number += int64(lot.Intn(5)) - 2
		}
		token := number + 100
		if lot.Intn(12) == 0 {
			token += int64(lot.Intn(5)) - 2
		}
		now += int64(lot.Intn(6))
		asked, granted := now-int64(lot.Intn(20)), now
		ended := granted + int64(lot.Intn(8))
		found := line{
			Path: "/lock", Kind: kinds[lot.Intn(len(kinds))], Worker: "w", Owner: fmt.Sprint(place),
			Node: fmt.Sprintf("%d-%010d", place, max(number, 0)), Token: &token, Asked: &asked, Granted: granted, Ended: &ended,
		}
		if found.Kind == "permit" {
			found.Permits = &capacity
		}
		if lot.Intn(10) == 0 {
			over := ended + int64(lot.Intn(3)) - 1
			found.Over = &over
		}
		if lot.Intn(3) > 0 {
			now = ended
		}
		one, err := newHold(found, place)
		if err != nil {
			panic(err)
		}
		of.holds = append(of.holds, one)
	}
	return of
}

// The verdict is the same whether an acquire takes effect at its grant, or at any time between its request
// and its grant. README.md explains why.
func TestPointsRefuseTheSameAsIntervals(t *testing.T) {
	lot := rand.New(rand.NewSource(7))
	counted := map[bool]int{}
	for _, kinds := range [][]string{{"mutex"}, {"read", "read", "write"}, {"permit"}} {
		for turn := 0; turn < 4000; turn++ {
			for _, part := range partsOf(drawn(lot, kinds)) {
				intervals := porcupine.CheckOperations(modelOf(everyRule), part.operations())
				points := porcupine.CheckOperations(modelOf(everyRule), part.points())
				if intervals != points {
					t.Fatalf("intervals: %v, points: %v: %v", intervals, points, part.holds)
				}
				counted[points]++
			}
		}
	}
	if counted[true] < 500 || counted[false] < 500 {
		t.Fatalf("drawn too much of one kind: %v", counted)
	}
	t.Log(counted)
}

// Each rejection has a reason. If a history breaks only one rule, the reason names that rule.
func TestEveryRefusalHasAReason(t *testing.T) {
	lot := rand.New(rand.NewSource(8))
	named := map[string]int{}
	for turn := 0; turn < 4000; turn++ {
		kinds := [][]string{{"mutex"}, {"read", "write"}, {"permit"}}[turn%3]
		outcome := judge(drawn(lot, kinds), 0)
		if outcome.Accepted != (len(outcome.Reasons) == 0) {
			t.Fatal(outcome)
		}
		for _, reason := range outcome.Reasons {
			named[reason.Rule]++
		}
	}
	for rule, name := range ruleNames {
		if named[name] == 0 && rule != nodeForTwo {
			t.Errorf("%s was never broken: %v", name, named)
		}
	}
	t.Log(named)
}
