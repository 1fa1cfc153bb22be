package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strconv"
)

// line is one line of a histories file. README.md describes the format.
type line struct {
	History  *string  `json:"history"`
	Restarts []string `json:"restarts"`

	Path    string `json:"path"`
	Kind    string `json:"kind"`
	Worker  string `json:"worker"`
	Owner   string `json:"owner"`
	Node    string `json:"node"`
	Session *int64 `json:"session"`
	Token   *int64 `json:"token"`
	Permits *int   `json:"permits"`
	Asked   *int64 `json:"asked"`
	Granted int64  `json:"granted"`
	Ended   *int64 `json:"ended"`
	Over    *int64 `json:"over"`
}

// unknown is the rank of a hold without a number or without a token.
const unknown = -1

// hold is a certain hold: one owner, one lock, one node.
type hold struct {
	line

	// reads is true for a reader, and permit for a holder of permits. All other holds are exclusive.
	reads, permit bool

	// If this is the reader's hold of a downgrade, writer is the same owner's hold of the write lock.
	// beside is true if the writer's hold still lasted when the reader's hold began.
	writer *hold
	beside bool

	// ranks are the hold's positions by sequence number and by token: see rank.go.
	ranks [keys]rank

	// capacity is the number of permits, if it is known.
	capacity *int

	// number identifies a hold in its history. client is the row of its owner in a picture of the history.
	number, client int
}

// history contains the holds of all locks in one run.
type history struct {
	name     string
	restarts map[string]bool
	holds    []*hold
}

var sequenced = regexp.MustCompile(`[0-9]{10}$`)

// sequence returns the node's sequence number, or nil.
func (one *hold) sequence() *int64 {
	digits := sequenced.FindString(one.Node)
	if digits == "" {
		return nil
	}
	number, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return nil
	}
	return &number
}

func (one *hold) String() string {
	return fmt.Sprintf("%s %s/%s node=%s token=%s", one.Kind, one.Worker, one.Owner, one.Node, shown(one.Token))
}

// short returns a short text for a picture.
func (one *hold) short() string {
	return one.Kind + " " + shown(one.sequence())
}

func shown(number *int64) string {
	if number == nil {
		return "?"
	}
	return strconv.FormatInt(*number, 10)
}

func same(one, other *int64) bool {
	if one == nil || other == nil {
		return one == other
	}
	return *one == *other
}

// read calls `each` with every history of a file, in order.
func read(from io.Reader, each func(*history) error) error {
	lines := bufio.NewReaderSize(from, 1<<20)
	var current *history
	for number := 1; ; number++ {
		text, err := lines.ReadBytes('\n')
		if len(text) == 0 && err == io.EOF {
			break
		}
		if err != nil && err != io.EOF {
			return err
		}
		var found line
		if err := json.Unmarshal(text, &found); err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
		if found.History != nil {
			if current != nil {
				if err := each(current); err != nil {
					return err
				}
			}
			current = &history{name: *found.History, restarts: map[string]bool{}}
			for _, path := range found.Restarts {
				current.restarts[path] = true
			}
			continue
		}
		if current == nil {
			return fmt.Errorf("line %d: a hold before the first history", number)
		}
		one, err := newHold(found, len(current.holds))
		if err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
		current.holds = append(current.holds, one)
	}
	if current == nil {
		return nil
	}
	return each(current)
}

func newHold(found line, number int) (*hold, error) {
	one := &hold{line: found, number: number}
	switch found.Kind {
	case "mutex", "write":
	case "read":
		one.reads = true
	case "permit":
		one.permit = true
	default:
		return nil, fmt.Errorf("unknown kind %q", found.Kind)
	}
	if found.Ended != nil && *found.Ended < found.Granted {
		return nil, fmt.Errorf("ended before it was granted")
	}
	return one, nil
}
