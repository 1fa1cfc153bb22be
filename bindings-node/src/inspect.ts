/** What `console.log` and `JSON.stringify` show of an object whose state is in the native half. */

import { inspect, type InspectOptions } from 'node:util';

import { shown } from '../addon';

/** By name; text is escaped when it is shown, a bigint is a string in JSON. */
export type Facts = Readonly<Record<string, unknown>>;

type Inspect = (value: unknown, options: InspectOptions) => string;

/** Has JSON of a plain object have strings for its bigints. Returns the object. */
export function withJson<T extends object>(object: T): T {
  const value = () => mapped(object as Facts, asJson);
  return Object.defineProperty(object, 'toJSON', { value, writable: true, configurable: true });
}

/** What JSON has for a value: a bigint, which `JSON.stringify` refuses, is a string. */
export function asJson(value: unknown): unknown {
  return typeof value === 'bigint' ? value.toString() : value;
}

function asText(value: unknown): unknown {
  return typeof value === 'string' ? shown(value) : value;
}

function mapped(facts: Facts, to: (value: unknown) => unknown): Facts {
  return Object.fromEntries(Object.entries(facts).map(([name, value]) => [name, to(value)]));
}

/**
 * Has the objects of a class shown as `Name { fact: … }`, and as these facts in JSON. Under a literal name, because
 * bundlers rename classes.
 */
export function showAs<T extends object>(prototype: T, name: string, factsOf: (object: T) => Facts): void {
  const show = function (this: T, depth: number, options: InspectOptions, into: Inspect): string {
    return depth < 0 ? `[${name}]` : `${name} ${into(mapped(factsOf(this), asText), { ...options, depth })}`;
  };
  Object.defineProperty(prototype, inspect.custom, { value: show, writable: true, configurable: true });
  if (Object.hasOwn(prototype, 'toJSON')) return;
  const toJSON = function (this: T): Facts {
    return mapped(factsOf(this), asJson);
  };
  Object.defineProperty(prototype, 'toJSON', { value: toJSON, writable: true, configurable: true });
}
