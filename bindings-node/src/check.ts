/** Checks of argument types, for callers without TypeScript. Core checks the ranges. */

/**
 * What constructors that are not for callers expect. The class of the native half would not do: it is another one after
 * the addon was loaded again, as happens in test runners that discard the modules they loaded.
 */
export const ours = Symbol('zklock');

export function checkOurs(key: unknown, how: string): void {
  if (key !== ours) throw new TypeError(how);
}

function fail(name: string, wanted: string, value: unknown): never {
  const got = value === null ? 'null' : typeof value;
  throw new TypeError(`${name}: must be ${wanted}, but is ${got}`);
}

export function checkType(type: string, wanted: string): (name: string, value: unknown) => void {
  return (name, value) => {
    if (typeof value !== type) fail(name, wanted, value);
  };
}

export const checkString = checkType('string', 'a string');
export const checkNumber = checkType('number', 'a number');
export const checkBoolean = checkType('boolean', 'a boolean');
export const checkFunction = checkType('function', 'a function');

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

/** What takes part in a transaction or in a handshake: text stands for its UTF-8. */
export function bytesOf(name: string, value: string | Uint8Array): Uint8Array {
  if (value instanceof Uint8Array) return value;
  checkString(name, value);
  return new TextEncoder().encode(value);
}

export function checkIterable(name: string, value: unknown): void {
  if (!isObject(value) || !(Symbol.iterator in value)) fail(name, 'iterable', value);
}

interface Class {
  readonly name: string;
  [Symbol.hasInstance](value: unknown): boolean;
}

export function checkInstance(name: string, value: unknown, of: Class): void {
  if (value instanceof of) return;
  const copy = isObject(value) && 'constructor' in value && value.constructor.name === of.name;
  fail(name, copy ? `a ${of.name} of this copy of zklock` : `a ${of.name}`, value);
}

/** Checks the shape, as Node does: the signal may come from another realm, or from a library. */
export function checkSignal(name: string, value: unknown): void {
  if (!isObject(value) || !('aborted' in value && 'addEventListener' in value)) fail(name, 'an AbortSignal', value);
}

export function checkObject(name: string, value: unknown): void {
  if (!isObject(value)) fail(name, 'an object', value);
}

type Checks<Options> = Readonly<Record<keyof Options, (name: string, value: unknown) => void>>;

/** Checks the options that are given. Takes a check for each, so that none is forgotten. */
export function checkOptions<Options extends object>(options: Options, checks: Checks<Options>): void {
  checkObject('options', options);
  for (const name of Object.keys(checks) as (keyof Options & string)[]) {
    if (options[name] !== undefined) checks[name](name, options[name]);
  }
}
