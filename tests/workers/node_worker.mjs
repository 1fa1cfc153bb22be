// Worker on zklock's Node API. Each owner is a chain of promises. If an owner holds a lock and acquires it again, the
// acquire runs in the scope of the owner's newest lease of this lock, as in a block of `using`. The read lock and the
// write lock of a read/write lock count as one lock. A multi-lock has a lease for each member.

import { AsyncLocalStorage } from 'node:async_hooks'
import { readFileSync, readdirSync } from 'node:fs'
import { createRequire } from 'node:module'
import { connect } from 'node:net'
import { createInterface } from 'node:readline'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { inspect } from 'node:util'

const here = dirname(fileURLToPath(import.meta.url))
const home = process.env.ZKLOCK_NODE_PACKAGE ?? join(here, '..', '..', 'bindings-node')
const load = createRequire(join(home, 'package.json'))
const { Client, Election, Leases, LockTimeoutError, MultiLock, Mutex, on, ReadWriteLock, Semaphore } = load('zklock')

const CONTROL = 'control'

const clients = new Map()
const locks = new Map()
const leases = new Map()
const scopes = new Map()
const owners = new Map()
// AbortController of each acquire. It is kept after the acquire has completed, to test that a late abort has no effect.
const acquires = new Map()
// Locks without a name, which are held until the process ends.
const unnamed = []

// CLOCK_MONOTONIC, which hrtime reads on Linux. A double represents it exactly for the first 104 days of uptime.
const now = () => Number(process.hrtime.bigint())
const emit = (event, fields) => process.stdout.write(`${JSON.stringify({ event, t: now(), ...fields })}\n`)
const answer = (command, event, fields) => emit(event, { id: command.id, ...fields })
const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds))

/** Returns a promise with its resolve and reject functions. */
function resolvers() {
  const resolvers = {}
  resolvers.promise = new Promise((resolve, reject) => Object.assign(resolvers, { resolve, reject }))
  return resolvers
}

/** Converts seconds to milliseconds. Other types pass through, because the binding must reject them. */
function milliseconds(value) {
  if (value === 'NaN') return Number.NaN
  return typeof value === 'number' ? value * 1000 : value
}

/** Returns a client that connects at its first use, like a lock on hosts in other languages. */
function atFirstUse(hosts, options = {}) {
  const name = JSON.stringify([hosts, options])
  const client = clients.get(name) ?? new Client(hosts, clientOptions(options))
  clients.set(name, client)
  return client
}

/** Returns the client's options from a `connect` command, or from a lock's `options`. */
function clientOptions(command) {
  const options = {}
  if ('session_timeout' in command) options.sessionTimeout = milliseconds(command.session_timeout)
  if ('connect_timeout' in command) options.connectTimeout = milliseconds(command.connect_timeout)
  if ('max_frame' in command) options.maxFrame = command.max_frame
  if ('auth' in command) options.auth = command.auth.map(([scheme, credential]) => ({ scheme, credential }))
  if ('acl' in command) options.acl = command.acl
  if ('parent_acl' in command) options.parentAcl = command.parent_acl
  if ('label' in command) options.label = command.label
  if ('identify' in command) options.identify = command.identify
  if ('sasl' in command) options.sasl = { user: command.sasl[0], password: command.sasl[1] }
  if ('tls' in command) {
    const files = Object.entries(command.tls).map(([name, path]) => [name, readFileSync(path)])
    options.tls = Object.fromEntries(files)
  }
  return options
}

function make(command) {
  const { path, kind = 'mutex', reentrant = true, label, naming } = command
  const [maxHold, linger] = [command.max_hold, command.linger].map(milliseconds)
  const { max_waiters: maxWaiters, cohort } = command
  const client = 'hosts' in command ? atFirstUse(command.hosts, command.options) : clients.get(command.client)
  const makers = {
    mutex: () => new Mutex(client, path, { reentrant, label, naming, maxHold, maxWaiters, cohort, linger }),
    read: () => new ReadWriteLock(client, path, { label, naming, maxHold, maxWaiters, cohort, linger }).readLock,
    write: () => new ReadWriteLock(client, path, { label, naming, maxHold, maxWaiters, cohort, linger }).writeLock,
    semaphore: () => new Semaphore(client, path, permits(command), { label, maxHold, maxWaiters }),
    election: () => campaigner(new Election(client, path, { id: command.candidate })),
    multi: () => new MultiLock(command.members.map((name) => locks.get(name).object)),
  }
  const lock = { object: makers[kind](), client, path, enterable: reentrant && kind !== 'semaphore' && kind !== 'election' }
  return { ...lock, members: kind === 'multi' ? command.members.map((name) => locks.get(name)) : [lock] }
}

/** Wraps an election as a lock: acquiring it is a campaign. */
const campaigner = (election) => ({
  election,
  acquire: (options) => election.campaign(options),
  tryAcquire: () =>
    election.campaign({ timeout: 0 }).catch((error) => {
      if (error instanceof LockTimeoutError) return null
      throw error
    }),
  using: (...args) => election.using(...args),
})

const candidate = (found) =>
  found && {
    position: found.position,
    id: found.id,
    node: found.node,
    session: found.sessionId.toString(),
    token: found.fencingToken.toString(),
  }

function permits(command) {
  return 'shared_count' in command ? { sharedCount: command.shared_count } : command.permits
}

const facts = (lease) => ({
  node: lease.node,
  token: lease.fencingToken.toString(),
  handoffs: lease.handoffs,
  session: lease.sessionId.toString(),
  remaining: lease.remaining / 1000,
})

const describe = ({ sessionId, fencingToken, about, data, dataLength, ...rest }) => ({
  ...rest,
  session: sessionId.toString(),
  token: fencingToken.toString(),
  host: about?.host ?? null,
  pid: about?.pid ?? null,
  language: about?.language ?? null,
  label: about?.label ?? null,
  since: about?.since.getTime() ?? null,
  cohort: about?.cohort ?? null,
  linger: about?.linger ?? null,
  data: data.toString('latin1'),
  data_length: dataLength,
})

/** The metrics of clients by exporter: names, labels and values. */
const scrape = {
  async prometheus(chosen) {
    const { Registry } = load('prom-client')
    const { Collector } = load('zklock/prometheus')
    const registry = new Registry()
    new Collector(chosen, { path: (path) => path, registers: [registry] })
    const told = await registry.getMetricsAsJSON()
    return told.flatMap(({ name, values }) => values.map((one) => [one.metricName ?? name, one.labels, one.value]))
  },

  async opentelemetry(chosen) {
    const { MeterProvider, MetricReader } = load('@opentelemetry/sdk-metrics')
    const { observe } = load('zklock/opentelemetry')
    class Reader extends MetricReader {
      onShutdown() {}
      onForceFlush() {}
    }
    const reader = new Reader()
    observe(chosen, { path: (path) => path, meterProvider: new MeterProvider({ readers: [reader] }) })
    const { resourceMetrics } = await reader.collect()
    const told = resourceMetrics.scopeMetrics.flatMap(({ metrics }) => metrics)
    return told.flatMap(({ descriptor, dataPoints }) =>
      dataPoints.map(({ attributes, value }) => [descriptor.name, attributes, value]),
    )
  },
}

/** Returns the options that identify an owner: its newest live lease on each client and path. Lost leases are not live. */
function owned(lock, owner) {
  const enterable = lock.members.filter((member) => member.enterable)
  const within = enterable.flatMap(({ client, path }) => {
    const mine = (held) => held.owner === owner && held.client === client && held.lease.path === path
    const live = ({ lease }) => lease.state === 'held' || lease.state === 'suspended'
    return [...leases.values()].findLast((held) => mine(held) && live(held))?.lease ?? []
  })
  if (lock.object instanceof MultiLock) return { within }
  return within.length > 0 ? { within: within[0] } : {}
}

function keep(name, lease, lock, owner) {
  const { client, enterable } = lock.members.find(({ path }) => path === lease.path)
  // A lease that cannot be re-entered is stored without its owner.
  leases.set(name, { lease, client, owner: enterable ? owner : undefined })
  lease.signal.addEventListener('abort', () => {
    emit('lost', { lease: name, reason: lease.lossReason })
  })
}

function granted(command, lock, acquired) {
  const t = now()
  if (!(acquired instanceof Leases)) {
    answer(command, 'acquired', { ...facts(acquired), t })
    keep(command.lease, acquired, lock, command.owner)
    return
  }
  const named = acquired.map((lease, number) => [`${command.lease}/${number}`, lease])
  const told = named.map(([name, lease]) => ({ lease: name, ...facts(lease) }))
  answer(command, 'acquired', { ...facts(acquired[0]), leases: told, t })
  leases.set(command.lease, { lease: acquired })
  for (const [name, lease] of named) keep(name, lease, lock, command.owner)
}

/** Acquires a lock. `otherwise` is the reply if the acquire times out. */
async function acquire(command, options, otherwise) {
  const lock = locks.get(command.lock)
  try {
    const acquired =
      'count' in command
        ? await lock.object.acquireMany(command.count, options)
        : await lock.object.acquire({ ...options, ...owned(lock, command.owner) })
    granted(command, lock, acquired)
  } catch (error) {
    if (!(error instanceof LockTimeoutError)) throw error
    answer(command, otherwise)
  }
}

const commands = {
  async connect(command) {
    const client = await Client.connect(command.hosts, clientOptions(command))
    clients.set(command.client, client)
    client.on('state', (state) => emit('state', { client: command.client, state }))
    answer(command, 'connected', { session: client.sessionId.toString() })
  },

  async lock(command) {
    locks.set(command.lock, make(command))
    answer(command, 'ready')
  },

  async client(command) {
    const { client } = locks.get(command.lock).object
    clients.set(command.client, client)
    answer(command, 'value', { value: client.sessionId.toString() })
  },

  async acquire(command) {
    const controller = new AbortController()
    const options = { signal: controller.signal }
    if ('timeout' in command) options.timeout = milliseconds(command.timeout)
    acquires.set(command.id, controller)
    try {
      await acquire(command, options, 'timeout')
    } catch (error) {
      if (controller.signal.aborted && error === controller.signal.reason) answer(command, 'cancelled')
      else throw error
    }
  },

  async try(command) {
    const lock = locks.get(command.lock)
    const within = Object.values(owned(lock, command.owner)).flat()
    if ('count' in command || within.length > 0) return acquire(command, { timeout: 0 }, 'busy')
    const acquired = await lock.object.tryAcquire()
    if (acquired === null) answer(command, 'busy')
    else granted(command, lock, acquired)
  },

  async release(command) {
    const options = { wait: command.wait ?? true }
    if ('timeout' in command) options.timeout = milliseconds(command.timeout)
    const t0 = now()
    await leases.get(command.lease).lease.release(options)
    answer(command, 'released', { t0 })
  },

  async enter(command) {
    const { object } = locks.get(command.lock)
    const [leave, entered] = [resolvers(), resolvers()]
    const options = {}
    if ('timeout' in command) options.timeout = milliseconds(command.timeout)
    if ('connect_timeout' in command) options.connectTimeout = milliseconds(command.connect_timeout)
    const scope = { leave, inside: undefined }
    const inside = scopes.get(command.within)?.inside ?? ((begin) => begin())
    const left = inside(() => object.using(options, async (held) => {
      scope.inside = AsyncLocalStorage.snapshot()
      entered.resolve([held].flat())
      await leave.promise
      const remaining = Math.max(...[held].flat().map((lease) => lease.remaining)) / 1000
      return { t0: now(), remaining }
    }))
    // If the lock cannot be acquired, the `enter` command fails. Later errors are reported by `leave`.
    left.catch(entered.reject)
    scopes.set(command.scope, Object.assign(scope, { left }))
    const [first] = await entered.promise
    answer(command, 'entered', facts(first))
  },

  async leave(command) {
    const { leave, left } = scopes.get(command.scope)
    scopes.delete(command.scope)
    leave.resolve()
    answer(command, 'left', await left)
  },

  async contenders(command) {
    const contenders = await locks.get(command.lock).object.contenders()
    answer(command, 'value', { value: contenders.map(describe) })
  },

  async shown(command) {
    const contenders = await locks.get(command.lock).object.contenders()
    answer(command, 'value', { value: contenders.map((contender) => inspect(contender, { breakLength: Infinity, compact: true })) })
  },

  async log(command) {
    const listener = ({ message, fields }) => emit('log', { text: message, fields: Object.values(fields).map(String) })
    on('log', listener, { level: 'trace' })
    answer(command, 'listening')
  },

  async locked(command) {
    answer(command, 'value', { value: await locks.get(command.lock).object.locked() })
  },

  async check(command) {
    leases.get(command.lease).lease.check()
    answer(command, 'value', { value: 'held' })
  },

  async state(command) {
    const { lease } = leases.get(command.lease)
    const t0 = now()
    answer(command, 'value', { value: lease.state, t0, remaining: lease.remaining / 1000 })
  },

  async transact(command) {
    const add = {
      create: (transaction, { path, data }) => transaction.create(path, data),
      set_data: (transaction, { path, data, version }) => transaction.setData(path, data, version),
      delete: (transaction, { path, version }) => transaction.delete(path, version),
      check: (transaction, { path, version }) => transaction.check(path, version),
    }
    const transaction = leases.get(command.lease).lease.transaction()
    for (const operation of command.operations) add[operation.op](transaction, operation)
    await transaction.commit()
    answer(command, 'done')
  },

  async tell(command) {
    const [host, port] = command.address.split(':')
    const connection = connect(Number(port), host)
    connection.end(`${command.text}\n`)
    let value = ''
    for await (const chunk of connection.setEncoding('utf8')) value += chunk
    answer(command, 'value', { value: value.trimEnd() })
  },

  async listen(command) {
    leases.get(command.lease).lease.onRevoke(() => emit('revoked', { lease: command.lease }))
    answer(command, 'listening')
  },

  async revoke(command) {
    await clients.get(command.client).revoke(command.node)
    answer(command, 'done')
  },

  async break(command) {
    await clients.get(command.client).breakLock(command.node)
    answer(command, 'done')
  },

  async get(command) {
    const found = await clients.get(command.client).get(command.node)
    answer(command, 'value', { value: found && { data: found.data.toString(), version: found.version } })
  },

  async count(command) {
    await clients.get(command.client).setSharedCount(command.node, command.count)
    answer(command, 'done')
  },

  async hold(command) {
    const client = clients.get(command.client)
    for (let number = command.first; number < command.first + command.count; number += 1) {
      const lock = new Mutex(client, `${command.path}/${number}`)
      unnamed.push(lock, await lock.acquire())
    }
    answer(command, 'done')
  },

  async contend(command) {
    const shared = command.objects === 'shared' ? make(command) : undefined
    const [low, high] = command.hold_ms
    const contender = async (number) => {
      const { object } = shared ?? make(command)
      for (let turn = 0; turn < command.rounds; turn += 1) {
        const asked = now()
        const held = await object.using(async (lease) => {
          const t = now()
          await sleep(low + Math.random() * (high - low))
          return { t, t_wait: asked, t_end: now(), ...facts(lease) }
        })
        answer(command, 'held', {
          lease: `${command.id}-${number}-${turn}`,
          owner: `${command.id}-${number}`,
          ...held,
        })
      }
      return command.rounds
    }
    const counts = await Promise.all(Array.from({ length: command.owners }, (_, number) => contender(number)))
    answer(command, 'done', { count: counts.reduce((sum, count) => sum + count, 0) })
  },

  async once(command) {
    const { object } = make(command)
    const [low, high] = command.hold_ms
    const asked = now()
    let count = 0
    const body = async (lease) => {
      count += 1
      const t = now()
      await sleep(low + Math.random() * (high - low))
      const names = { lease: String(command.id), owner: command.owner }
      answer(command, 'held', { t, t_wait: asked, t_end: now(), ...names, ...facts(lease) })
      return 'ran'
    }
    const ran =
      'period' in command
        ? await object.oncePer(milliseconds(command.period), body)
        : await object.once(command.key, body)
    if ((ran === 'ran') !== (count === 1)) throw new Error(`${ran} of a body that ran ${count} times`)
    answer(command, 'done', { count })
  },

  async leads(command) {
    answer(command, 'value', { value: locks.get(command.lock).object.election.isLeader })
  },

  async leader(command) {
    answer(command, 'value', { value: candidate(await locks.get(command.lock).object.election.leader()) })
  },

  async candidates(command) {
    const candidates = await locks.get(command.lock).object.election.candidates()
    answer(command, 'value', { value: candidates.map(candidate) })
  },

  async observe(command) {
    const { election } = locks.get(command.lock).object
    const observe = async () => {
      for await (const leader of election.observe()) emit('leader', { lock: command.lock, leader: candidate(leader) })
    }
    observe().catch((error) => {
      if (error.code !== 'CLIENT_CLOSED') throw error
    })
    answer(command, 'listening')
  },

  async cycles(command) {
    const { object } = locks.get(command.lock)
    const wait = command.wait ?? true
    const started = now()
    for (let turn = 0; turn < command.count; turn += 1) {
      const lease = await object.acquire()
      await lease.release({ wait })
    }
    answer(command, 'done', { elapsed_ns: now() - started, count: command.count })
  },

  async stats(command) {
    const seconds = ({ count, sum, max, buckets }) => ({
      count,
      sum: sum / 1000,
      max: max / 1000,
      buckets: buckets.map(([bound, count]) => [bound / 1000, count]),
    })
    const { wait, hold, lossesByReason, ...counts } = clients.get(command.client).stats()
    const value = { ...counts, losses_by_reason: lossesByReason, wait: seconds(wait), hold: seconds(hold) }
    answer(command, 'value', { value })
  },

  async health(command) {
    const t0 = now()
    const { sessionId, sessionTimeout, lastProof, remaining, waits, holds, ...rest } = clients.get(command.client).health()
    const value = {
      ...rest,
      server: rest.server ?? null,
      session: sessionId.toString(),
      session_timeout: sessionTimeout / 1000,
      last_proof: lastProof === undefined ? null : lastProof / 1000,
      remaining: remaining / 1000,
      waits: waits.map(({ label = null, age, node = null, inCohort, position = null, behind = null, ...wait }) => {
        return { ...wait, label, age: age / 1000, node, in_cohort: inCohort, position, behind }
      }),
      holds: holds.map(({ label = null, age, fencingToken, remaining, ...hold }) => {
        return { ...hold, label, age: age / 1000, token: fencingToken.toString(), remaining: remaining / 1000 }
      }),
    }
    answer(command, 'value', { value, t0 })
  },

  async scrape(command) {
    const chosen = Object.fromEntries(command.clients.map((name) => [name, clients.get(name)]))
    const t0 = now()
    answer(command, 'value', { value: await scrape[command.exporter](chosen), t0 })
  },

  async close(command) {
    await clients.get(command.client).close()
    answer(command, 'closed')
  },
}

async function perform(command) {
  const run = commands[command.cmd]
  if (run === undefined) return answer(command, 'unsupported')
  try {
    await run(command)
  } catch (error) {
    const code = typeof error?.code === 'string' ? { code: error.code } : {}
    const type = error?.constructor?.name ?? typeof error
    answer(command, 'error', { type, message: String(error?.message), ...code, ...details(error) })
  }
}

/** Returns the structured details of an error. */
function details(error) {
  const { servers = [], blockers = [], deadlock, reason } = error ?? {}
  const found = { ...(typeof reason === 'string' && { reason }) }
  if (servers.length > 0) {
    found.servers = servers.map(({ server, problem }) => [server, problem])
    found.cause = String(error.cause)
  }
  if (blockers.length > 0) {
    found.blockers = blockers.map(({ position, node, sessionId, about }) => {
      return { position, node, session: String(sessionId), pid: about?.pid ?? null, label: about?.label ?? null }
    })
  }
  if (deadlock !== undefined) {
    found.deadlock = { held: deadlock.held, waited: deadlock.waited, node: deadlock.other.node }
  }
  return found
}

/** Returns the names of this process's threads. A thread can exit in the meantime. */
function threadNames() {
  const tasks = '/proc/self/task'
  return readdirSync(tasks).flatMap((task) => {
    try {
      return [readFileSync(join(tasks, task, 'comm'), 'utf8').trim()]
    } catch {
      return []
    }
  })
}

const closeAll = () => Promise.allSettled([...clients.values()].map((client) => client.close()))

const input = createInterface({ input: process.stdin })
let ending = false

input.on('line', (line) => {
  const command = JSON.parse(line)
  switch (command.cmd) {
    case 'exit':
      ending = true
      // Do not call process.exit(): the test checks that the process exits by itself.
      closeAll().then(() => {
        answer(command, 'bye')
        input.close()
        process.stdin.destroy()
      })
      break
    case 'threads':
      answer(command, 'value', { value: threadNames() })
      break
    case 'cancel':
      // The acquire might have completed in the meantime.
      acquires.get(command.target)?.abort()
      answer(command, 'cancelled')
      break
    case 'contend':
      perform(command)
      break
    default: {
      const owner = command.owner ?? CONTROL
      owners.set(owner, (owners.get(owner) ?? Promise.resolve()).then(() => perform(command)))
    }
  }
})

input.on('close', () => {
  if (!ending) closeAll()
})

emit('ready', { surface: 'node', pid: process.pid })
