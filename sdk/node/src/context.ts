/** What a handler is told beside its records, and what it can say beside its emits. */
import type { BatchRun, Labels } from "./batchrun.js";
import { MAX_TEXT } from "./frames.js";

export interface StatusOptions {
  /** The record at hand; left out: the one that is handled. */
  offset?: number;
  /** Which attempt at it this is, from 1. */
  attempt?: number;
  /** It waits, so that another batch may come in its place; holds until the next status. */
  waiting?: boolean;
  nextAttemptMs?: number;
  /** Why it waits. */
  error?: string;
}

export class Context {
  readonly #run: BatchRun;
  /** The topic of the inlet. */
  readonly topic: string;

  constructor(run: BatchRun, topic: string) {
    this.#run = run;
    this.topic = topic;
  }

  /** The inlet's name. */
  get inlet(): string {
    return this.#run.inlet;
  }
  get partition(): number {
    return this.#run.partition;
  }
  /** Which delivery this is, from 1, of the batch's first record by this supervisor since the last commit: a hint. */
  get attempt(): number {
    return this.#run.attempt;
  }
  /** Aborted when the batch's answer no longer counts: pass it to fetch and the like. */
  get signal(): AbortSignal {
    return this.#run.abort.signal;
  }
  /** Whether the batch's answer no longer counts, so that a long handler should return. */
  get stopping(): boolean {
    return this.#run.isVoid;
  }

  /** Adds to a counter of /metrics; counts when the batch commits. */
  counter(name: string, increment = 1, labels: Labels | null = null): void {
    this.#run.report([name, "counter", labels, increment]);
  }

  /** Sets a gauge of /metrics; counts when the batch commits. */
  gauge(name: string, value: number, labels: Labels | null = null): void {
    this.#run.report([name, "gauge", labels, value]);
  }

  /** Tells the supervisor where a long handler is; feeds its warning about a stalled partition. */
  status({ offset = this.#run.at?.offset, attempt, waiting, nextAttemptMs, error }: StatusOptions): void {
    this.#run.sendNow(["status", this.#run.id, { offset, attempt, waiting, next_attempt_ms: nextAttemptMs, error: error?.slice(0, MAX_TEXT) }]);
  }
}
