package gate

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	// Longest latency in microseconds that a histogram can contain.
	longest = 60_000_000
	// A sleep that ends later than this was delayed by more than the precision of the timers.
	timer = 2 * time.Millisecond
	// Time limit for the operation that is in progress at the end of a turn.
	settled = 10 * time.Second
	// Start of a turn while no turn is in progress: no operation can begin later.
	never = int64(1<<63 - 1)
)

var names = [...]string{"acquire", "release", "handoff"}

// latencies are the latencies of a turn. Times are in nanoseconds since epoch.
type latencies struct {
	epoch     time.Time
	exclusive bool
	// Time between two scheduled starts, or zero.
	period time.Duration
	// Time between the schedules of two contenders.
	offset time.Duration
	// Number of stopwatches.
	stopwatches atomic.Int64
	// Only operations that begin after the turn has begun are recorded.
	turn atomic.Int64
	// Time of the newest call of a release.
	released atomic.Int64
	mutex    sync.Mutex
	recorded map[string]*hdrhistogram.Histogram
}

func newLatencies(given Task) *latencies {
	measured := &latencies{
		epoch:     time.Now(),
		exclusive: given.Kind == "mutex" && !given.Each,
		period:    time.Duration(given.Period * float64(time.Second)),
	}
	measured.offset = measured.period / time.Duration(given.Clients*given.Contenders)
	measured.take()
	return measured
}

func (measured *latencies) now() int64 {
	return int64(time.Since(measured.epoch))
}

func (measured *latencies) begin() {
	measured.turn.Store(measured.now())
}

// take ends the turn and returns its histograms, in the format that all libraries for such
// histograms can read.
func (measured *latencies) take() map[string]string {
	measured.turn.Store(never)
	measured.mutex.Lock()
	defer measured.mutex.Unlock()
	told := map[string]string{}
	for name, histogram := range measured.recorded {
		text, err := histogram.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
		Must(err)
		told[name] = string(text)
	}
	measured.recorded = map[string]*hdrhistogram.Histogram{}
	for _, name := range names {
		measured.recorded[name] = hdrhistogram.New(1, longest, 3)
	}
	return told
}

func (measured *latencies) record(name string, began, now int64) {
	if began < measured.turn.Load() {
		return
	}
	measured.mutex.Lock()
	defer measured.mutex.Unlock()
	Must(measured.recorded[name].RecordValue(min(max((now-began)/1000, 1), longest)))
}

// Stopwatch measures the operations of one contender. It does nothing unless the task asks for
// latencies.
type Stopwatch struct {
	all *latencies
	// Time from the beginning of a turn to the first scheduled start. The contenders start one after
	// the other, so that their requests do not arrive all at once.
	offset      int64
	began       int64
	scheduled   int64
	scheduledIn int64
}

// Stopwatch returns the stopwatch of a contender.
func (gate *Gate) Stopwatch() *Stopwatch {
	watch := &Stopwatch{all: gate.latencies, scheduledIn: never}
	if watch.all != nil {
		watch.offset = (watch.all.stopwatches.Add(1) - 1) * int64(watch.all.offset)
	}
	return watch
}

// Start precedes an acquire. With a period, it returns at the scheduled time. If the previous pair
// ended after that time, the acquire counts from the scheduled time, so that a stall counts for
// every pair that it delays.
func (watch *Stopwatch) Start() {
	if watch.all == nil {
		return
	}
	watch.began = watch.all.now()
	turn, period := watch.all.turn.Load(), int64(watch.all.period)
	if period == 0 || turn == never {
		return
	}
	// The schedule of a turn starts with the first pair of the turn.
	next := watch.began + watch.offset
	if watch.scheduledIn == turn {
		next = watch.scheduled + period
	}
	watch.scheduled, watch.scheduledIn = next, turn
	idle := watch.began < next
	time.Sleep(time.Duration(next - watch.began))
	now := watch.all.now()
	watch.began = next
	if idle && now-next < int64(timer) {
		watch.began = now
	}
}

// Acquired follows an acquire.
func (watch *Stopwatch) Acquired() {
	if watch.all == nil {
		return
	}
	now := watch.all.now()
	watch.all.record("acquire", watch.began, now)
	if watch.all.exclusive {
		watch.all.record("handoff", watch.all.released.Load(), now)
	}
}

// Releasing precedes a release.
func (watch *Stopwatch) Releasing() {
	if watch.all != nil {
		watch.began = watch.all.now()
		watch.all.released.Store(watch.began)
	}
}

// Released follows a release.
func (watch *Stopwatch) Released() {
	if watch.all != nil {
		watch.all.record("release", watch.began, watch.all.now())
	}
}
