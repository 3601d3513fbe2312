/** One batch at work: what its handler emits and reports, and whether its answer still counts. */
import { inspect } from "node:util";
import { EmitBuffer, type Limits } from "./emitbuffer.js";
import { encodeFrame, MAX_SERIES, MAX_TEXT, type Message } from "./frames.js";
import { isEmit, type Emit } from "./ports.js";
import { FlowRecord, type Batch, type RawRecord } from "./records.js";
import type { Emits } from "./streamlet.js";

export type Labels = Readonly<Record<string, string>>;
export type Series = readonly [name: string, kind: "counter" | "gauge", labels: Labels | null, number: number];

/** A batch as it came. */
export interface RawBatch {
  readonly id: number;
  readonly inlet: string;
  readonly partition: number;
  readonly records: readonly RawRecord[];
  readonly attempt: number;
}

/** What a batch needs of its conversation. */
export interface RunScope {
  readonly limits: Limits;
  /** The names of the declared outlets. */
  readonly outlets: ReadonlySet<string>;
  /** Sends bytes that are whole frames. */
  send(frames: Uint8Array): void;
}

export class BatchRun implements Batch {
  readonly id: number;
  readonly inlet: string;
  readonly partition: number;
  readonly records: readonly FlowRecord[];
  readonly attempt: number;
  /** Aborted when the batch becomes void. */
  readonly abort = new AbortController();
  /** Set when the one answer has been sent. */
  answered = false;
  /** The record that is handled, for the offset of a failure. */
  at: FlowRecord | null = null;
  /** Emits that were made, and those that were returned. */
  made = 0;
  taken = 0;
  #error: { readonly reason: unknown } | null = null;
  readonly #scope: RunScope;
  readonly #outlets = new Map<string, EmitBuffer>();
  #series: Series[] = [];
  #frames: Uint8Array[] = [];
  #waiting = 0;

  constructor({ id, inlet, partition, records, attempt }: RawBatch, scope: RunScope) {
    this.id = id;
    this.inlet = inlet;
    this.partition = partition;
    this.records = records.map((raw, index) => new FlowRecord(raw, index));
    this.attempt = attempt;
    this.#scope = scope;
  }

  get isVoid(): boolean {
    return this.abort.signal.aborted;
  }

  /** Its emits and its answer no longer count. */
  makeVoid(reason: string): void {
    this.abort.abort(new Error(`the batch is void: ${reason}`));
  }

  /** Lets the batch fail when its handler has ended: a second batch of its partition must not start beside it. The first error counts. */
  poison(reason: unknown): void {
    if (this.#error !== null || this.answered) return;
    this.#error = { reason };
    this.sendNow(["status", this.id, { error: textOf(reason), offset: this.at?.offset }]);
  }

  /** Takes nothing, or a single emit; says whether it was one of these. */
  takeNow(emits: Emits): boolean {
    if (emits === null || emits === undefined) return true;
    if (!isEmit(emits)) return false;
    this.#emit(emits);
    return true;
  }

  /** Takes what a handler gave back. */
  async take(emits: Emits): Promise<void> {
    if (this.takeNow(emits)) return;
    const many = emits as Iterable<Emit> | AsyncIterable<Emit>;
    if (typeof many === "object" && Symbol.asyncIterator in many) {
      for await (const emit of many) {
        if (this.isVoid) break;
        this.#emit(emit);
      }
    } else if (typeof many === "object" && Symbol.iterator in many) {
      for (const emit of many) {
        if (this.isVoid) break;
        this.#emit(emit);
      }
    } else {
      throw new TypeError(`a handler returns emits or nothing, not ${inspect(emits, { depth: 0 }).slice(0, 80)}`);
    }
  }

  report(series: Series): void {
    if (this.answered) throw new Error(`batch ${this.id} was answered; report before the handler ends, or with the streamlet's own counter and gauge`);
    this.#series.push(checked(series));
  }

  /** Sends a message ahead of what waits, unless the batch was answered. */
  sendNow(message: Message): void {
    if (!this.answered) this.#scope.send(encodeFrame(message));
  }

  /** The one answer, for a handler that ended well. */
  acknowledge(): void {
    if (this.#error !== null) return this.fail(this.#error.reason);
    if (this.answered) return;
    if (this.isVoid) {
      this.#drop();
    } else {
      for (const outlet of this.#outlets.values()) outlet.flush();
      for (let at = 0; at < this.#series.length; at += MAX_SERIES) {
        this.#queue(encodeFrame(["report", this.id, this.#series.slice(at, at + MAX_SERIES)]));
      }
    }
    this.#answer(["ack", this.id]);
  }

  /** The one answer, for a handler that failed. */
  fail(reason: unknown): void {
    if (this.answered) return;
    this.#drop();
    const cause = reason as { name?: unknown; constructor?: { name?: string } } | null | undefined;
    const kind = typeof cause?.name === "string" ? cause.name : (cause?.constructor?.name ?? typeof reason);
    const detail = inspect(reason).slice(0, MAX_TEXT);
    this.#answer(["fail", this.id, { message: textOf(reason), offset: this.at?.offset, kind: kind.slice(0, MAX_TEXT), detail }]);
  }

  #answer(message: Message): void {
    this.#queue(encodeFrame(message));
    this.answered = true;
    this.#flush();
  }

  #emit(emit: unknown): void {
    if (!isEmit(emit)) throw new TypeError(`a handler returns or yields emits, not ${inspect(emit, { depth: 0 }).slice(0, 80)}`);
    this.taken++;
    if (this.isVoid) return;
    this.#bufferOf(emit).add(emit, (record) => this.records[record.index] === record);
  }

  #bufferOf({ outlet: { name } }: Emit): EmitBuffer {
    let buffer = this.#outlets.get(name);
    if (buffer === undefined) {
      if (!this.#scope.outlets.has(name)) throw new TypeError(`no outlet ${JSON.stringify(name)} is declared; declared are: ${[...this.#scope.outlets].join(", ")}`);
      buffer = new EmitBuffer(this.id, name, this.#scope.limits, (frame) => this.#queue(frame));
      this.#outlets.set(name, buffer);
    }
    return buffer;
  }

  /** Frames wait for one write with the answer, but not when they are large. */
  #queue(frame: Uint8Array): void {
    this.#frames.push(frame);
    this.#waiting += frame.length;
    if (this.#waiting > 1_048_576) this.#flush();
  }

  #drop(): void {
    this.#frames = [];
    this.#waiting = 0;
  }

  #flush(): void {
    const frames = this.#frames;
    this.#drop();
    if (frames.length > 0) this.#scope.send(frames.length === 1 ? (frames[0] as Uint8Array) : Buffer.concat(frames));
  }
}

/** The text of anything that was thrown. */
export function textOf(reason: unknown): string {
  const text = reason instanceof Error ? reason.message : typeof reason === "string" ? reason : inspect(reason);
  return text.slice(0, MAX_TEXT);
}

/** Throws TypeError for a series that the supervisor would refuse. */
export function checked(series: Series): Series {
  const [name, kind, , number] = series;
  if (!Number.isFinite(number) || (kind === "counter" && number < 0)) {
    throw new TypeError(`the ${kind} ${name} must be a finite number${kind === "counter" ? ", 0 or more" : ""}, not ${number}`);
  }
  return series;
}
