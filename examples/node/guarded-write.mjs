// A node in ZooKeeper that only the current holder of the lock can write.
//
// A process is stopped between checking its lease and writing, as the kernel or a hypervisor can
// stop any process. Meanwhile another process acquires the lock. When the first process resumes, it
// does not know that it has lost the lock, and writes. The write is part of a transaction that also
// checks that the lock is still held, so the servers refuse it. With `--unguarded`, the stopped
// process writes as if there were no lock and overwrites the newer report, so the program fails.
//
//     ZKLOCK_HOSTS=127.0.0.1:2181 node guarded-write.mjs [--unguarded]

import { fork } from 'node:child_process';
import { once } from 'node:events';
import process from 'node:process';
import { fileURLToPath } from 'node:url';

import { Client, LockLostError, Mutex, TransactionFailedError } from 'zklock';

const LOCK = '/examples/guarded-write';

/** Writes a report, provided that the lock is still held when the servers carry out the write. */
async function write(lease, report, text) {
  await lease.transaction().setData(report, text).commit();
}

/** Writes like a ZooKeeper client without locks, here under an unrelated lock. */
async function writeUnguarded(client, report, text) {
  await new Mutex(client, `${LOCK}-not`).using((lease) => write(lease, report, text));
}

/** Acquires the lock, is stopped between checking and writing, and writes. */
async function stoppedWriter(report, guarded) {
  const client = await Client.connect(undefined, { sessionTimeout: 2000 });
  try {
    await new Mutex(client, LOCK).using(async (lease) => {
      console.log('the first writer holds the lock');
      await new Promise((sent) => process.send('holding', sent));
      lease.check(); // The check passes, but then:
      process.kill(process.pid, 'SIGSTOP');
      await (guarded ? write(lease, report, 'old') : writeUnguarded(client, report, 'old'));
      console.log('the first writer resumes, and is not refused');
    });
  } catch (error) {
    if (!(error instanceof LockLostError)) throw error;
    console.log(`the first writer learns of its loss: ${error.message}`);
  }
  await client.close();
  process.disconnect();
}

/** Fails unless the second writer's report remains, because that writer holds the lock. */
async function main(options) {
  const report = `/examples/report-${process.pid}`;
  const client = await Client.connect();
  const mutex = new Mutex(client, LOCK);
  const first = fork(fileURLToPath(import.meta.url), [report, ...options]);
  await once(first, 'message');
  try {
    await mutex.using(async (lease) => {
      console.log('the second writer holds the lock');
      await lease.transaction().create(report).setData(report, 'new').commit();
    });
  } finally {
    first.kill('SIGCONT');
    await once(first, 'exit');
  }

  await mutex.using(async (lease) => {
    try {
      // After one write, a node has version 1.
      await lease.transaction().delete(report, 1).commit();
      console.log('the new report remains');
    } catch (error) {
      if (!(error instanceof TransactionFailedError)) throw error;
      await lease.transaction().delete(report).commit();
      console.log('the old report remains');
      process.exitCode = 1;
    }
  });
  await client.close();
}

const options = process.argv.slice(2);
if (process.send) {
  const [report, ...rest] = options;
  await stoppedWriter(report, !rest.includes('--unguarded'));
} else {
  await main(options);
}
