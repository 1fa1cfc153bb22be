// Latencies of single operations, as histograms. A worker measures them only if its task asks for them.

import { createRequire } from 'node:module'
import { performance } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'

// Longest latency in microseconds that a histogram can contain.
const LONGEST = 60_000_000
// A sleep that ends later than this number of milliseconds was delayed by more than the precision of the timers.
const TIMER = 2

const names = ['acquire', 'release', 'handoff']

/** Returns the latencies of the task. They become histograms only after each turn. */
export function latencies(task) {
  const exclusive = task.kind === 'mutex' && !task.each
  const period = 1000 * (task.period ?? 0)
  let stopwatches = 0
  const recorded = Object.fromEntries(names.map((name) => [name, []]))
  // Only operations that begin after the turn has begun are recorded.
  let turn = Infinity
  let lastRelease = 0

  function record(name, began, now) {
    if (began >= turn) recorded[name].push(now - began)
  }

  /** Measures the operations of one contender. */
  function stopwatch() {
    // The contenders start one after the other, so that their requests do not arrive all at once.
    const offset = (period * stopwatches++) / (task.clients * task.contenders)
    let began = 0
    let scheduled = 0
    let scheduledIn = Infinity
    return {
      /**
       * Call this before an acquire. With a period, it returns at the scheduled time. If the previous pair ended after
       * that time, the acquire counts from the scheduled time, so that a stall counts for every pair that it delays.
       */
      async start() {
        began = performance.now()
        if (period === 0 || turn === Infinity) return
        // The schedule of a turn starts with the first pair of the turn.
        const next = scheduledIn === turn ? scheduled + period : began + offset
        scheduledIn = turn
        scheduled = next
        const idle = began < next
        if (idle) await sleep(Math.ceil(next - began))
        const now = performance.now()
        began = idle && now - next < TIMER ? now : next
      },
      acquired() {
        const now = performance.now()
        record('acquire', began, now)
        if (exclusive) record('handoff', lastRelease, now)
      },
      releasing: () => (began = lastRelease = performance.now()),
      released: () => record('release', began, performance.now()),
    }
  }

  return {
    exclusive,
    stopwatch,
    begin: () => (turn = performance.now()),
    /** Ends the turn and returns its histograms. */
    take() {
      turn = Infinity
      return Object.fromEntries(names.map((name) => [name, text(recorded[name].splice(0))]))
    },
  }
}

const nothing = () => undefined

/** Does nothing, for tasks without latencies. */
export const unmeasured = { start: nothing, acquired: nothing, releasing: nothing, released: nothing }

/** Returns a histogram in the format that all libraries for such histograms can read. */
function text(milliseconds) {
  // Only this benchmark needs the library, so the other one does not load it.
  const { build, encodeIntoCompressedBase64 } = createRequire(import.meta.url)('hdr-histogram-js')
  const histogram = build({
    lowestDiscernibleValue: 1,
    highestTrackableValue: LONGEST,
    numberOfSignificantValueDigits: 3,
  })
  for (const one of milliseconds) histogram.recordValue(Math.min(Math.max(Math.floor(one * 1000), 1), LONGEST))
  return encodeIntoCompressedBase64(histogram)
}
