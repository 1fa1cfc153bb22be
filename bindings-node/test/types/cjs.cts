// Compile-time test of a CommonJS consumer.

import zklock = require('zklock');
import opentelemetry = require('zklock/opentelemetry');
import prometheus = require('zklock/prometheus');
import testing = require('zklock/testing');

async function main(): Promise<void> {
  await using client: zklock.Client = await zklock.Client.connect();
  const mutex: zklock.Mutex = new zklock.Mutex(client, process.env['LOCK_PATH'] ?? '/types');
  {
    await using lease: zklock.Lease = await mutex.acquire();
    console.log(lease.state);
  }
  const lease = await mutex.tryAcquire();
  console.log(lease?.state === 'held' ? 'released' : 'taken');
  await lease?.release();
}

export async function tested(): Promise<string> {
  await using server: testing.Server = await testing.Server.start();
  return server.hosts;
}

export function observed(client: zklock.Client): prometheus.Collector {
  const stop: () => void = opentelemetry.observe(client);
  stop();
  return new prometheus.Collector(client);
}

void main();
