/**
 * Checks argument types and option names, for callers without TypeScript. The Rust core checks the ranges of values.
 */

import { types } from 'node:util';

import { shown } from '../addon';

import { BadArgumentError, trimStack } from './errors';

/**
 * Key that internal constructors require. Checking for a class of the native addon would not work: it changes when the
 * addon is loaded again, as in test runners that discard loaded modules.
 */
export const internalKey = Symbol('zklock');

export function checkInternalKey(key: unknown, how: string): void {
  if (key !== internalKey) throw new TypeError(how);
}

type Check = (name: string, value: unknown) => void;

function fail(name: string, wanted: string, value: unknown, below: (...given: never[]) => unknown): never {
  const got = value === null ? 'null' : typeof value;
  throw trimStack(new TypeError(`${name}: must be ${wanted}, but is ${got}`), below);
}

export function checkType(type: string, wanted: string): Check {
  const check: Check = (name, value) => {
    if (typeof value !== type) fail(name, wanted, value, check);
  };
  return check;
}

/**
 * Checks that the value is well-formed text. Half of a surrogate pair is not a character, and would be replaced on its
 * way to the native addon. The message does not show the text, which may be a password.
 */
export function checkString(name: string, value: unknown): void {
  if (typeof value !== 'string') fail(name, 'a string', value, checkString);
  if (/\p{Surrogate}/u.test(value)) {
    const problem = 'contains a lone surrogate, which is not a character';
    throw trimStack(new BadArgumentError(`${name}: ${problem}`), checkString);
  }
}

export const checkNumber = checkType('number', 'a number');
export const checkBoolean = checkType('boolean', 'a boolean');
export const checkFunction = checkType('function', 'a function');

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

/** Returns bytes for a transaction or a handshake. Text is encoded as UTF-8. */
export function bytesOf(name: string, value: string | Uint8Array): Uint8Array {
  // Accept arrays of any realm, because test runners and frames have their own `Uint8Array` class.
  if (types.isUint8Array(value)) return value;
  checkString(name, value);
  return new TextEncoder().encode(value);
}

export function checkIterable(name: string, value: unknown): void {
  if (!isObject(value) || !(Symbol.iterator in value)) fail(name, 'iterable', value, checkIterable);
}

interface Class {
  readonly name: string;
  [Symbol.hasInstance](value: unknown): boolean;
}

/** `className` is the public name of the class, because bundlers rename classes. */
export function checkInstance(name: string, value: unknown, of: Class, className: string): void {
  if (value instanceof of) return;
  const copy = isObject(value) && 'constructor' in value && value.constructor.name === of.name;
  fail(name, copy ? `a ${className} of this copy of zklock` : `a ${className}`, value, checkInstance);
}

/** Checks for a session by shape, not by class, because a test may have loaded the package more than once. */
export function checkSession(name: string, value: unknown): void {
  const id = isObject(value) && 'sessionId' in value ? value.sessionId : value;
  if (typeof id !== 'bigint') fail(name, 'a client, a lease or the id of a session, a bigint', value, checkSession);
}

/** Checks the shape, as Node does: the signal may come from another realm or from a library. */
export function checkSignal(name: string, value: unknown): void {
  if (!isObject(value) || !('aborted' in value && 'addEventListener' in value)) {
    fail(name, 'an AbortSignal', value, checkSignal);
  }
}

export function checkObject(name: string, value: unknown): void {
  if (!isObject(value)) fail(name, 'an object', value, checkObject);
}

/** One check for each option. The type requires all of them, and an option without a check is refused. */
export type Checks<Options> = Readonly<Record<keyof Required<Options>, Check>>;

/** A value for every property name of a record. */
export type Names<Record> = Readonly<{ [Name in keyof Required<Record>]: unknown }>;

/** Refuses unknown names: with a misspelled timeout, for example, an acquire would wait forever. */
export function checkNames<Given extends object>(where: string, given: Given, known: Names<Given>): void {
  checkObject(where, given);
  const unknown = Object.keys(given).find((name) => !Object.hasOwn(known, name));
  if (unknown === undefined) return;
  const names = Object.keys(known);
  const meant = nearest(unknown, names);
  const hint = meant === undefined ? `; there are ${names.join(', ')}` : `; did you mean '${meant}'?`;
  throw trimStack(new BadArgumentError(`${where}: there is no '${shown(unknown)}'${hint}`), checkNames);
}

/** Checks the given options. Requires a check for every option, so that none is forgotten. */
export function checkOptions<Options extends object>(options: Options, checks: Checks<Options>): void {
  try {
    checkNames('options', options, checks as Names<Options>);
    for (const name of Object.keys(checks) as (keyof Options & string)[]) {
      if (options[name] !== undefined) checks[name](name, options[name]);
    }
  } catch (error) {
    throw trimStack(error, checkOptions);
  }
}

/** Returns the same text for `sessionTimeout`, `session_timeout` and `SessionTimeout`. */
function plain(name: string): string {
  return name.replace(/[_-]/g, '').toLowerCase();
}

/** Returns the edit distance: the number of letters to add, remove or change to turn one word into the other. */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (const [done, letter] of a.split('').entries()) {
    const next = [done + 1];
    for (let index = 0; index < b.length; index++) {
      const [above = 0, diagonal = 0, left = 0] = [row[index + 1], row[index], next[index]];
      next.push(Math.min(above + 1, left + 1, diagonal + (letter === b[index] ? 0 : 1)));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}

/**
 * Returns the known name that is most similar to this one, or `undefined` if more than a third of the letters differ.
 */
function nearest(name: string, known: readonly string[]): string | undefined {
  // Skip a very long name: it is not a misspelled option, and the comparison would take long.
  if (name.length > 50) return undefined;
  const [best] = known
    .map((candidate) => ({ candidate, far: distance(plain(name), plain(candidate)) }))
    .sort((one, other) => one.far - other.far);
  return best !== undefined && best.far <= Math.max(1, name.length / 3) ? best.candidate : undefined;
}
