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
  acquisitions: 'Holds that began.',
  contended: 'Those of them that had to wait for another contender.',
  handoffs: 'Acquisitions that were handed on within the client, without a request.',
  retakes: 'Acquisitions that took a node again that the client had kept, without a request.',
  busy: 'Tries that found the lock taken, and acquires that `maxWaiters` refused.',
  timeouts: 'Attempts that timed out.',
  sessions: 'Sessions that began.',
  reconnections: 'Connections that were lost and replaced within a session.',
} as const satisfies Partial<Record<keyof Stats, string>>;

export type Count = keyof typeof COUNTS;

/** Descriptions of the other metrics. */
export const HELP = {
  losses: 'Holds that were lost, except by closing the client.',
  requests: 'Requests for locks.',
  state: '1 for the state that the client is in, 0 for the others.',
  term: "What is left of the session's term, after which its leases are lost; 0 if it does not run.",
  responsive: "1 if the library's thread could be looked at, else 0.",
  waiters: 'Attempts that wait for a lock now.',
  holders: 'Holds now.',
  oldestWait: 'How long the oldest of the attempts has waited; 0 without any.',
  oldestHold: 'How long the oldest of the holds has lasted; 0 without any.',
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
