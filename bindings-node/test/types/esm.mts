// Compile-time test of an ES module consumer: every public name and its types.

import { EventEmitter, once } from 'node:events';

import { metrics, trace } from '@opentelemetry/api';
import { Registry, type OpenMetricsContentType } from 'prom-client';

import {
  Client,
  Election,
  Lock,
  LockLostError,
  LockTimeoutError,
  MultiLock,
  Mutex,
  ReadWriteLock,
  Semaphore,
  TransactionFailedError,
  ZkLockError,
  off,
  on,
  type AcquireAllOptions,
  type AcquireOptions,
  type ClientOptions,
  type ClientState,
  type CloseOptions,
  type ConnectOptions,
  type Contender,
  type ContenderInfo,
  type ErrorCode,
  type EndingSignal,
  type Histogram,
  type Lease,
  type LeaseJson,
  type LeaseState,
  type Leases,
  type LockOptions,
  type LockInfo,
  type LockSnapshot,
  type LogLevel,
  type LogListener,
  type LogOptions,
  type LogRecord,
  type LossReason,
  type LostListener,
  type MutexOptions,
  type OwnerInfo,
  type OwnerReport,
  type ReadyOptions,
  type ReleaseOptions,
  type RequestOptions,
  type RunOptions,
  type SemaphoreOptions,
  type SharedCount,
  type StateListener,
  type Stats,
  type WaitOptions,
} from 'zklock';
import { instrument, observe, traced, type MetricsOptions, type TracedOptions, type TracingOptions } from 'zklock/opentelemetry';
import { Collector, type Clients, type CollectorOptions, type PathLabel, type Registries } from 'zklock/prometheus';
import { Server, type ServerOptions } from 'zklock/testing';

const path = process.env['LOCK_PATH'] ?? '/types';
const made: ClientOptions = { sessionTimeout: 10_000, connectTimeout: 5_000, label: 'types' };
const soon: ReadyOptions = { signal: AbortSignal.timeout(20_000) };
const connect: ConnectOptions = { ...made, ...soon };
const options: MutexOptions = { label: 'types', naming: 'curator', reentrant: true };
const sides: LockOptions = { label: 'types', naming: 'curator' };
const waiting: AcquireOptions = { timeout: 1000, signal: AbortSignal.timeout(5000), within: undefined, owner: 'worker-1' };
const releasing: ReleaseOptions = { wait: true };

{
  await using client: Client = await Client.connect(undefined, connect);
  const state: ClientState = client.state;
  const session: bigint = client.sessionId;
  const listener: StateListener = (changed: ClientState) => void changed;
  const reasons: Record<LossReason, number> = {
    'term ended': 0,
    'session expired': 0,
    'node deleted': 0,
    'held too long': 0,
    'client closed': 0,
  };
  const lost: LostListener = ({ path, lossReason }: Lease) => void [path, lossReason && reasons[lossReason]];
  // @ts-expect-error -- no reason has this name
  const unknown: LossReason = 'lost';
  void unknown;
  const same: Client = client.unref().ref().on('state', listener).off('state', listener).once('lost', lost);
  const emitter: EventEmitter = client;
  const gone: Promise<[Lease]> = once(emitter, 'lost') as Promise<[Lease]>;
  void gone;
  const later: Client = new Client(undefined, made);
  await later.ready(soon);
  await later.close();
  const mutex = new Mutex(same, path, options);
  {
    await using lease: Lease = await mutex.acquire(waiting);
    const facts: [string, string, bigint, bigint, AbortSignal] = [
      lease.path,
      lease.node,
      lease.fencingToken,
      lease.sessionId,
      lease.signal,
    ];
    const held: LeaseState = lease.state;
    const json: LeaseJson = lease.toJSON();
    lease.check();
    console.log(held);
    void [state, session, facts, json.fencingToken.length];
  }
  const lease: Lease | null = await mutex.tryAcquire();
  if (lease !== null) await lease.release(releasing);
  console.log(lease === null ? 'not released' : 'released');
  const length: number = await mutex.using((held) => held.path.length);
  const node: string = await mutex.using({ timeout: 1000 }, async (held) => Promise.resolve(held.node));
  void [length, node];
  const both = new ReadWriteLock(client, `${path}-both`, sides);
  const locks: Lock[] = [mutex, both.readLock, both.writeLock];
  const tokens: bigint[] = [];
  for (const lock of locks) tokens.push(await lock.using(waiting, (held) => held.fencingToken));
  void [tokens, both.path];
  const slots: SemaphoreOptions = { label: 'types' };
  const shared: SharedCount = { sharedCount: `${path}-count` };
  const semaphore = new Semaphore(client, `${path}-slots`, 2, slots);
  const limit: WaitOptions = { timeout: 1000 };
  {
    await using leases: Leases = await semaphore.acquireMany(2, limit);
    const [first]: readonly Lease[] = leases;
    const nodes: string[] = leases.map((held) => held.node);
    const lost: AbortSignal = leases.signal;
    leases.check();
    void [first, nodes, lost];
  }
  const counted: number | SharedCount = new Semaphore(client, `${path}-shared`, shared).permits;
  const several = new MultiLock([...locks, semaphore]);
  const named: AcquireAllOptions = { ...limit, within: [], owner: 'worker-1' };
  const paths: string[] = await several.using(named, (leases) => leases.map((held) => held.path));
  const all: Leases | null = await several.tryAcquire();
  await all?.release(releasing);
  void [counted, paths.length === several.paths.length];
  const queue: Contender[] = await mutex.contenders();
  const owners: (OwnerInfo | undefined)[] = queue.map(({ about }) => about?.owner);
  const shares: (number | undefined)[] = queue.flatMap(({ about }) => [about?.cohort, about?.linger]);
  const invisible: boolean[] = client.health().waits.map(({ inCohort }) => inCohort);
  void [shares, invisible];
  const held: OwnerReport[] = client.health().holds.map(({ owner }) => owner);
  const names: (string | undefined)[] = [...owners.map((owner) => owner?.name), ...held.map(({ name }) => name)];
  const facts = queue.map(({ position, sessionId, about }): [number, bigint, ContenderInfo | undefined] => [
    position,
    sessionId,
    about,
  ]);
  const taken: boolean = await semaphore.locked();
  void [facts, taken, names];
  const requesting: RequestOptions = { mode: 'shared', ifAvailable: true, signal: AbortSignal.timeout(1000) };
  const maybe: string | undefined = await client.request(path, requesting, (held) => held?.path);
  const surely: string = await client.request(path, { mode: 'exclusive' }, async (held) => Promise.resolve(held.path));
  const snapshot: LockSnapshot = await client.query(path);
  const infos: LockInfo[] = [...snapshot.held, ...snapshot.pending];
  const ending: EndingSignal[] = ['SIGTERM'];
  const undo: (() => void) & Disposable = client.closeOnSignals(ending);
  undo();
  void [maybe, surely, infos.map(({ name, mode, clientId }) => `${name} ${mode} ${clientId}`)];
  const leading: RunOptions = { signal: AbortSignal.timeout(1000) };
  const led: Promise<void> = new Election(client, path).run((leadership) => leadership.fencingToken, leading);
  const failed: TransactionFailedError = new TransactionFailedError('in vain');
  const place: [number | undefined, string | undefined] = [failed.index, failed.path];
  const draining: CloseOptions = { drain: Infinity };
  await client.close(draining);
  await led;
  void place;
  const stats: Stats = client.stats();
  const waits: Histogram = stats.wait;
  const counts: number[] = [stats.acquisitions, waits.sum, ...waits.buckets.map(([bound, count]) => bound * count)];
  void [counts, stats.requests['create']];
}

export async function tested(): Promise<void> {
  const anywhere: ServerOptions = { port: 0 };
  await using server: Server = await Server.start(anywhere);
  const client: Client = await Client.connect(server.hosts);
  const lease: Lease = await new Mutex(client, path).acquire();
  const [contender] = await new Mutex(client, path).contenders();
  const ended: boolean[] = [await server.expire(client), await server.expire(lease), await server.disconnect(lease.sessionId)];
  if (contender !== undefined) ended.push(await server.expire(contender));
  await server.pause();
  await server.resume();
  await server.latency(5);
  const tree: Record<string, Buffer> = await server.tree();
  const same: Server = server.unref().ref();
  await same.stop();
  void [ended, tree[path]?.length];
  // @ts-expect-error A path is not a session.
  await server.expire(path);
  // @ts-expect-error Servers are created with Server.start().
  new Server();
  // @ts-expect-error This option does not exist.
  await Server.start({ prot: 1 });
}

export async function observed(client: Client, lock: Lock): Promise<void> {
  const clients: Clients = { reports: client };
  const path: PathLabel = (one) => one.slice(0, 5);
  const registers: Registries = [new Registry(), new Registry<OpenMetricsContentType>()];
  const collecting: CollectorOptions = { path, registers };
  new Collector(clients, collecting).unregister();
  const metering: MetricsOptions = { path, meterProvider: metrics.getMeterProvider() };
  const stop: () => void = observe(client, metering);
  const tracing: TracingOptions = { tracerProvider: trace.getTracerProvider() };
  for (const undo of [stop, instrument(clients, tracing)]) undo();
  const spanned: TracedOptions = { ...tracing, timeout: 1000 };
  const token: bigint = await traced(lock, spanned, (lease) => lease.fencingToken);
  const node: string = await traced(lock, async ({ node }) => Promise.resolve(node));
  void [token, node];
  // @ts-expect-error A path is not a client.
  observe(path);
  // @ts-expect-error This option does not exist.
  new Collector(client, { register: registers });
}

const loud: LogOptions = { level: 'warn' };
const listener: LogListener = (record: LogRecord) => {
  const facts: [LogLevel, string, Date, string | number | boolean | undefined] = [
    record.level,
    record.message,
    record.time,
    record.fields['path'],
  ];
  void facts;
};
on('log', listener, loud);
off('log', listener);

const error: ZkLockError = new LockTimeoutError('late');
const code: ErrorCode = error.code;
void [code, error instanceof LockLostError];

export async function refusedByTheCompiler(): Promise<void> {
  // @ts-expect-error A constructor does not wait. connect() and ready() accept a signal.
  new Client('a', { signal: AbortSignal.timeout(1) });
  // @ts-expect-error This option does not exist. Ignoring the typo would wait forever.
  await new Mutex(new Client(), path).acquire({ timout: 5 });
  // @ts-expect-error A client has no such event.
  new Client().on('lsot', () => undefined);
  // @ts-expect-error A listener for losses receives the lease, not a state.
  new Client().once('lost', (state: ClientState) => state);
  // @ts-expect-error A timeout is an option, not an argument.
  await new Mutex(new Client(), path).acquire(5000);
  // @ts-expect-error Times are numbers.
  await Client.connect('a', { sessionTimeout: '10s' });
  // @ts-expect-error A lock cannot be stolen from its holder.
  await (undefined as unknown as Client).request(path, { steal: true }, () => undefined);
  // @ts-expect-error With ifAvailable, the lease can be null.
  await (undefined as unknown as Client).request(path, { ifAvailable: true }, (held) => held.path);
  // @ts-expect-error This signal cannot be handled.
  (undefined as unknown as Client).closeOnSignals(['SIGKILL']);
  // @ts-expect-error A drain takes a time.
  await new Client().close({ drain: true });
  // @ts-expect-error This event does not exist.
  on('lag', () => undefined);
  // @ts-expect-error This naming does not exist.
  const wrong: MutexOptions = { naming: 'etcd' };
  void wrong;
  // @ts-expect-error A semaphore requires a number of permits.
  new Semaphore(undefined as unknown as Client, path);
  // @ts-expect-error The leases of an acquire are immutable.
  (undefined as unknown as Leases).push();
  // @ts-expect-error A read/write lock is always reentrant.
  const rigid: LockOptions = { reentrant: false };
  void rigid;
}
