// The worker that uses node-zookeeper-client. That package has no lock, so the worker implements the
// recipe of ZooKeeper's documentation.

import { createRequire } from 'node:module'
import { promisify } from 'node:util'

import zookeeper from 'node-zookeeper-client'

import { contenders, gate, lockPath, quietly, serve, task } from './gate.mjs'

const { version } = createRequire(import.meta.url)('node-zookeeper-client/package.json')

function connect() {
  const client = zookeeper.createClient(task.hosts, { sessionTimeout: 10_000 })
  const { promise, resolve } = resolvers()
  client.once('connected', resolve)
  client.connect()
  return promise.then(() => ({
    create: promisify(client.create.bind(client)),
    children: (path) =>
      new Promise((done, fail) => client.getChildren(path, (error, names) => (error ? fail(error) : done(names)))),
    exists: (path, watcher) =>
      new Promise((done, fail) => client.exists(path, watcher, (error, stat) => (error ? fail(error) : done(stat)))),
    mkdirp: promisify(client.mkdirp.bind(client)),
    remove: promisify(client.remove.bind(client)),
    close: () => client.close(),
  }))
}

function resolvers() {
  const made = {}
  made.promise = new Promise((resolve) => (made.resolve = resolve))
  return made
}

async function acquire(client, directory) {
  const node = await client.create(`${directory}/lock-`, null, null, zookeeper.CreateMode.EPHEMERAL_SEQUENTIAL)
  const ours = node.slice(directory.length + 1)
  for (;;) {
    const names = (await client.children(directory)).sort()
    const place = names.indexOf(ours)
    if (place <= 0) return node
    const { promise, resolve } = resolvers()
    if ((await client.exists(`${directory}/${names[place - 1]}`, resolve)) !== null) await promise
  }
}

async function pairs(client, directory) {
  for (;;) {
    const node = await acquire(client, directory)
    await gate.pass()
    await client.remove(node)
    gate.done(1)
  }
}

const clients = await Promise.all(Array.from({ length: task.clients }, connect))
for (let contender = 0; contender < contenders; contender++) {
  const client = clients[Math.floor(contender / task.contenders)]
  const directory = lockPath(contender)
  await client.mkdirp(directory)
  quietly(pairs(client, directory))
}
await serve(`node-zookeeper-client ${version}`, () => clients.forEach((client) => client.close()))
