/** Checks of the arguments' types, for callers without TypeScript. Their ranges are core's to check. */

/**
 * What constructors that are not for callers want to be given. The class of the native half would not tell as much: it is
 * another one after the addon was loaded again, as test runners do that forget the modules they loaded.
 */
export const ours = Symbol('zklock');

export function checkOurs(key: unknown, how: string): void {
  if (key !== ours) throw new TypeError(how);
}

function fail(name: string, wanted: string, value: unknown): never {
  const got = value === null ? 'null' : typeof value;
  throw new TypeError(`${name}: must be ${wanted}, but is ${got}`);
}

export function checkOptions(name: string, value: unknown): void {
  if (typeof value !== 'object' || value === null) fail(name, 'an object', value);
}

export function checkString(name: string, value: unknown): void {
  if (typeof value !== 'string') fail(name, 'a string', value);
}

export function checkNumber(name: string, value: unknown, wanted = 'a number'): void {
  if (typeof value !== 'number') fail(name, wanted, value);
}

export function checkIterable(name: string, value: unknown): void {
  if (typeof value !== 'object' || value === null || !(Symbol.iterator in value)) fail(name, 'iterable', value);
}

export function checkFunction(name: string, value: unknown): void {
  if (typeof value !== 'function') fail(name, 'a function', value);
}

interface Class {
  readonly name: string;
  [Symbol.hasInstance](value: unknown): boolean;
}

export function checkInstance(name: string, value: unknown, of: Class): void {
  if (value instanceof of) return;
  const object = typeof value === 'object' && value !== null && 'constructor' in value;
  const copy = object && value.constructor.name === of.name;
  fail(name, copy ? `a ${of.name} of this copy of zklock` : `a ${of.name}`, value);
}

export function checkOptionalString(name: string, value: unknown): void {
  if (value !== undefined) checkString(name, value);
}

export function checkOptionalNumber(name: string, value: unknown): void {
  if (value !== undefined) checkNumber(name, value);
}

export function checkOptionalBoolean(name: string, value: unknown): void {
  if (value !== undefined && typeof value !== 'boolean') fail(name, 'a boolean', value);
}

/** By its shape, as Node does it: the signal may come from another realm, or from a library. */
export function checkOptionalSignal(name: string, value: unknown): void {
  if (value === undefined) return;
  const isSignal = typeof value === 'object' && value !== null && 'aborted' in value && 'addEventListener' in value;
  if (!isSignal) fail(name, 'an AbortSignal', value);
}
