/** The parts that `zklock/prometheus` and `zklock/opentelemetry` share. */

import { Client } from './client';
import type { HoldReport, WaitReport } from './health';
import type { Stats } from './stats';
import type { ClientState } from './types';
import { checkInstance, checkObject } from './validate';

/** One client, or several clients by names that the program chooses. */
export type Clients = Client | Readonly<Record<string, Client>>;

/**
 * Returns the label value for a lock's path. Return few different values, because every value is a separate time
 * series.
 */
export type PathLabel = (path: string) => string;

export const STATES: readonly ClientState[] = ['idle', 'connecting', 'connected', 'suspended', 'closed'];

/** Descriptions of the counters that have no label except the client. */
export const COUNTS = {
  acquisitions: 'Number of holds that began.',
  contended: 'Number of acquisitions that had to wait for another contender.',
  handoffs: 'Number of acquisitions that another holder in this client handed on, without a request.',
  retakes: 'Number of acquisitions that reused a node that the client had kept, without a request.',
  busy: 'Number of acquires that did not wait and found the lock taken, or that `maxWaiters` refused.',
  timeouts: 'Number of acquires that timed out.',
  sessions: 'Number of sessions that began.',
  reconnections: 'Number of connections that were lost and replaced within a session.',
} as const satisfies Partial<Record<keyof Stats, string>>;

export type Count = keyof typeof COUNTS;

/** Descriptions of the other metrics. */
export const HELP = {
  losses: 'Number of holds that were lost, except by closing the client.',
  requests: 'Number of requests for locks.',
  state: '1 for the current state of the client, 0 for all other states.',
  term: "Remaining time of the session's term. At its end, the leases are lost. 0 if no term is running.",
  responsive: "1 if the library's thread answered, else 0.",
  waiters: 'Number of acquires that are waiting for a lock.',
  holders: 'Number of current holds.',
  oldestWait: 'Time that the oldest pending acquire has waited; 0 if there is none.',
  oldestHold: 'Age of the oldest hold; 0 if there is none.',
} as const;

/** Returns the clients with their names. A single client has an empty name. */
export function named(clients: Clients): readonly (readonly [string, Client])[] {
  if (clients instanceof Client) return [['', clients]];
  checkObject('clients', clients);
  const entries = Object.entries(clients);
  for (const [name, client] of entries) checkInstance(`clients.${name}`, client, Client, 'Client');
  return entries;
}

interface Counted {
  readonly key: string;
  readonly mode: string;
  readonly path: string | undefined;
  count: number;
}

/** Counts the reports by mode and by the label of their path. `key` identifies each combination of mode and label. */
export function counted(
  reports: readonly (WaitReport | HoldReport)[],
  label: (path: string) => string | undefined,
): Counted[] {
  const counts = new Map<string, Counted>();
  for (const { mode, path } of reports) {
    const called = label(path);
    const key = `${mode}:${called ?? ''}`;
    const known = counts.get(key);
    if (known === undefined) counts.set(key, { key, mode, path: called, count: 1 });
    else known.count += 1;
  }
  return [...counts.values()];
}

/** Returns the age of the oldest report in ms; 0 without reports. */
export function oldest(reports: readonly (WaitReport | HoldReport)[]): number {
  // Not `Math.max(...ages)`: there may be more reports than a function accepts as arguments.
  return reports.reduce((most, { age }) => Math.max(most, age), 0);
}
