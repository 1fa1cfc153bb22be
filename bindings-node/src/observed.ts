/** What `zklock/prometheus` and `zklock/opentelemetry` have in common. */

import { checkFunction, checkInstance, checkObject } from './check';
import { Client } from './client';
import type { HoldReport, WaitReport } from './health';
import type { ClientState } from './state';
import type { Stats } from './stats';

/** A client, or several under names of the program's choice. */
export type Clients = Client | Readonly<Record<string, Client>>;

/** The value of a label for a lock's path. There should be few: each is a series that is kept. */
export type PathLabel = (path: string) => string;

export const STATES: readonly ClientState[] = ['idle', 'connecting', 'connected', 'suspended', 'closed'];

/** What is counted without any label but the client's. */
export const COUNTS = {
  acquisitions: 'Holds that began.',
  contended: 'Those of them that had to wait for another contender.',
  busy: 'Tries that found the lock taken.',
  timeouts: 'Attempts that timed out.',
  sessions: 'Sessions that began.',
  reconnections: 'Connections that were lost and replaced within a session.',
} as const satisfies Partial<Record<keyof Stats, string>>;

export type Count = keyof typeof COUNTS;

/** The clients by name; one alone has an empty one. */
export function named(clients: Clients): readonly (readonly [string, Client])[] {
  if (clients instanceof Client) return [['', clients]];
  checkObject('clients', clients);
  const entries = Object.entries(clients);
  for (const [name, client] of entries) checkInstance(`clients.${name}`, client, Client, 'Client');
  return entries;
}

export function checkPathLabel(name: string, value: unknown): void {
  checkFunction(name, value);
}

/** How many of them there are, by mode and by what the path is called. */
export function counted(
  reports: readonly (WaitReport | HoldReport)[],
  label: (path: string) => string | undefined,
): { mode: string; path: string | undefined; count: number }[] {
  const counts = new Map<string, { mode: string; path: string | undefined; count: number }>();
  for (const { mode, path } of reports) {
    const called = label(path);
    const key = `${mode}:${called ?? ''}`;
    const known = counts.get(key);
    if (known === undefined) counts.set(key, { mode, path: called, count: 1 });
    else known.count += 1;
  }
  return [...counts.values()];
}

/** How long the oldest has lasted, in ms; 0 without any. */
export function oldest(reports: readonly (WaitReport | HoldReport)[]): number {
  return Math.max(0, ...reports.map(({ age }) => age));
}
