/** What `zklock/prometheus` and `zklock/opentelemetry` have in common. */

import { Client } from './client';
import type { HoldReport, WaitReport } from './health';
import type { Stats } from './stats';
import type { ClientState } from './types';
import { checkInstance, checkObject } from './validate';

/** A client, or several under names of the program's choice. */
export type Clients = Client | Readonly<Record<string, Client>>;

/** The value of a label for a lock's path. There should be few: each is a series that is kept. */
export type PathLabel = (path: string) => string;

export const STATES: readonly ClientState[] = ['idle', 'connecting', 'connected', 'suspended', 'closed'];

/** What is counted without any label but the client's. */
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

/** What the rest is. */
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

/** The clients by name; one alone has an empty one. */
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

/** How many of them there are, by mode and by what the path is called. `key` tells the two apart from others. */
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

/** How long the oldest has lasted, in ms; 0 without any. */
export function oldest(reports: readonly (WaitReport | HoldReport)[]): number {
  // Not as arguments of one call: there may be more reports than a function takes.
  return reports.reduce((most, { age }) => Math.max(most, age), 0);
}
