/** What a lock is held for, or is to be: `permit` of a semaphore, `leadership` of an election. */
export type LockMode = 'mutex' | 'read' | 'write' | 'permit' | 'leadership';
