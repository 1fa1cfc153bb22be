// Common parts of the JavaScript workers: the task, the gate, and the line protocol.

import { performance } from 'node:perf_hooks'
import process from 'node:process'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'

import { latencies, unmeasured } from './latencies.mjs'

export const BATCH = 100

// Time limit in milliseconds for the operation that is in progress at the end of a turn.
const SETTLED = 10_000

export const task = JSON.parse(process.argv[2])
export const contenders = task.clients * task.contenders

const measured = task.latencies ? latencies(task) : undefined

/** Returns the stopwatch of a contender. */
export const stopwatch = () => measured?.stopwatch() ?? unmeasured

/**
 * Returns the server of a client. If latencies are measured, the clients are distributed over the servers in a fixed
 * order, because the distance to the leader changes latencies.
 */
export function clientHosts(client) {
  const each = task.hosts.split(',')
  return task.latencies ? each[client % each.length] : task.hosts
}

/** Returns the path of a contender's lock. */
export const lockPath = (contender) => (task.each ? `${task.path}/${contender}` : task.path)

/** Number of turns after which a contender writes again. The share of readers is never 100 %. */
const step = Math.round(100 / (100 - task.reads))

/** Returns whether a contender acquires the write lock in this turn. */
export const writes = (contender, turn) => (contender + turn) % step === step - 1

const tell = (fields) => process.stdout.write(`${JSON.stringify(fields)}\n`)

let open
let opened = new Promise((resolve) => (open = resolve))
let isOpen = false
let done = 0
let parked = 0

async function park() {
  parked++
  await opened
  parked--
}

/** A gate that stops contenders while nothing is counted. Each keeps its lock, so nothing else happens. */
export const gate = {
  pass: () => (isOpen ? undefined : park()),
  done: (pairs) => (done += pairs),
}

async function count(seconds) {
  const [before, began] = [done, performance.now()]
  measured?.begin()
  isOpen = true
  open()
  await sleep(seconds * 1000)
  isOpen = false
  opened = new Promise((resolve) => (open = resolve))
  const told = { count: done - before, seconds: (performance.now() - began) / 1000 }
  if (measured) {
    // The operation that was in progress at the end of the turn is complete when its holder waits for the gate.
    // Without this, a turn would usually lose its longest latency.
    const end = performance.now() + SETTLED
    while (measured.exclusive && parked === 0 && performance.now() < end) await sleep(1)
    told.latencies = measured.take()
  }
  tell(told)
}

/** Reports that the worker is ready, follows the driver's commands until `stop`, and ends this process. */
export async function serve(version, close) {
  tell({ ready: version })
  for await (const line of createInterface({ input: process.stdin })) {
    const [word, seconds] = line.split(' ')
    if (word !== 'count') break
    await count(Number(seconds))
  }
  await close()
  process.exit(0)
}

/** Ignores the errors that contenders get when their client is closed. */
export const quietly = (promise) => promise.catch(() => undefined)
