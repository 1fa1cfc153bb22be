// The worker that uses zklock in Node.

import { createRequire } from 'node:module'
import process from 'node:process'
import { setImmediate as turn } from 'node:timers/promises'

import { BATCH, clientHosts, contenders, gate, lockPath, quietly, serve, stopwatch, task, writes } from './gate.mjs'

const require = createRequire(`${process.env.ZKLOCK_BENCH_PACKAGE}/package.json`)
const { Client, Mutex, ReadWriteLock, Semaphore } = require('zklock')
const { version } = require('./package.json')

const options = { cohort: task.cohort, linger: 1000 * task.linger }

/** Returns a contender's locks for writing and reading. */
function locks(client, contender) {
  const path = lockPath(contender)
  if (task.kind === 'readwrite') {
    const both = new ReadWriteLock(client, path, options)
    return [both.writeLock, both.readLock]
  }
  const lock = task.kind === 'mutex' ? new Mutex(client, path, options) : new Semaphore(client, path, task.permits)
  return [lock, lock]
}

const work = {
  async pair(both, contender) {
    const watch = stopwatch()
    for (let number = 0; ; number++) {
      const pause = watch.start()
      if (pause) await pause
      const lease = await both[writes(contender, number) ? 0 : 1].acquire()
      watch.acquired()
      await gate.pass()
      watch.releasing()
      await lease.release()
      watch.released()
      gate.done(1)
      // Lets the event loop run its timers. Acquires that send no request never yield to the loop.
      if (task.linger > 0 && number % BATCH === 0) await turn()
    }
  },

  reenter: ([lock]) =>
    lock.using(async () => {
      for (;;) {
        await gate.pass()
        for (let number = 0; number < BATCH; number++) await lock.using(() => undefined)
        gate.done(BATCH)
        // Lets the event loop run its timers.
        await turn()
      }
    }),

  async try([lock]) {
    for (;;) {
      await gate.pass()
      if ((await lock.tryAcquire()) !== null) throw new Error('the lock is taken')
      gate.done(1)
    }
  },
}

// The last client holds the locks that the others find taken.
const clients = await Promise.all(
  Array.from({ length: task.clients + 1 }, (_, number) => Client.connect(clientHosts(number))),
)
const held = await Promise.all(Array.from({ length: task.held }, () => locks(clients.at(-1), 0)[1].acquire()))
for (let contender = 0; contender < contenders; contender++) {
  const client = clients[Math.floor(contender / task.contenders)]
  quietly(work[task.op](locks(client, contender), contender))
}
await serve(version, () => Promise.all(clients.map((client) => client.close())))
held.length = 0
