/** Who is told of one hold, if somebody traces its client. */
export interface TracedHold {
  /** Runs the body of its scope. */
  run<T>(body: () => T): T;
  /** The body failed. Counts only until it is over. */
  failed(error: unknown): void;
  /** It is over: released, or lost for a reason. Only the first call counts. */
  ended(lossReason: string | undefined): void;
}
