/** Defines the output of `console.log` and `JSON.stringify` for objects whose state is in the native addon. */

import { inspect, type InspectOptions } from 'node:util';

import { shown } from '../addon';

/** The properties to show, by name. Text is escaped when shown; a bigint becomes a string in JSON. */
export type Facts = Readonly<Record<string, unknown>>;

type Inspect = (value: unknown, options: InspectOptions) => string;

/** Makes the JSON of a plain object contain strings instead of bigints. Returns the object. */
export function withJson<T extends object>(object: T): T {
  const value = () => mapped(object as Facts, asJson);
  return Object.defineProperty(object, 'toJSON', { value, writable: true, configurable: true });
}

/** Returns the JSON form of a value: a bigint becomes a string, because `JSON.stringify` rejects bigints. */
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
 * Makes `console.log` show the objects of a class as `Name { fact: … }`, and JSON contain the same facts. The name is a
 * literal because bundlers rename classes.
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
