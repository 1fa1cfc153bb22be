/** Calls what listens. */

/**
 * Calls a listener. What it throws is an uncaught exception, as with any event emitter, but the other listeners come
 * first.
 */
export function call<T>(listener: (event: T) => void, event: T): void {
  try {
    listener(event);
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
  }
}
