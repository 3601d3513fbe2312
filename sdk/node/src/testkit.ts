/** Runs a streamlet in a test, without a supervisor and without a broker. */
import { decodeBody, FrameCutter, type Message } from "./frames.js";
import { Config, type ConfigValue } from "./parameters.js";
import type { Bytes, EmittedHeader } from "./ports.js";
import { asBuffer, type Header, type RawRecord } from "./records.js";
import { Session } from "./session.js";
import { declarationOf, type Streamlet } from "./streamlet.js";

/** A record that a streamlet emitted and whose batch was acknowledged. */
export interface WrittenRecord {
  readonly key: Buffer | null;
  readonly value: Buffer | null;
  readonly headers: readonly Header[];
  /** Null: stamped when written. */
  readonly timestampMs: number | null;
}

/** A batch that its handler failed. Its records stay in their partition, and come first in the next run. */
export interface Failure {
  readonly inlet: string;
  readonly partition: number;
  readonly offsets: readonly number[];
  /** The record's that was handled, if known. */
  readonly offset: number | null;
  readonly message: string;
  readonly kind: string;
  /** The stack and its causes. */
  readonly detail: string;
}

export interface PutOptions {
  value: Bytes | null;
  key?: Bytes | null;
  headers?: readonly EmittedHeader[];
  timestampMs?: number;
  /** Left out: chosen by the key. */
  partition?: number;
}

export interface HarnessOptions {
  /** Values, or their texts, of parameters; the others have their defaults. */
  config?: Readonly<Record<string, ConfigValue>>;
  /** The partitions of each inlet. Default 3. */
  partitions?: number;
}

interface Partition {
  readonly inlet: string;
  readonly number: number;
  readonly records: RawRecord[];
  next: number;
}

interface Flight {
  readonly partition: Partition;
  readonly records: readonly RawRecord[];
  readonly written: (readonly [outlet: string, record: WrittenRecord])[];
  readonly settled: () => void;
}

/** A streamlet with queues instead of topics. What it says crosses the same protocol as it does with the supervisor. */
export class Harness {
  readonly failures: Failure[] = [];
  /** The records of acknowledged batches that emitted nothing at all. */
  skipped = 0;
  /** How many batches were acknowledged. */
  batches = 0;
  readonly #session: Session;
  readonly #cutter = new FrameCutter();
  readonly #partitions = new Map<string, Partition[]>();
  readonly #outlets = new Map<string, WrittenRecord[]>();
  readonly #flights = new Map<number, Flight>();
  #lastId = 0;
  #broken: { readonly reason: unknown } | null = null;

  constructor(streamlet: Streamlet, { config = {}, partitions = 3 }: HarnessOptions = {}) {
    const declaration = declarationOf(streamlet);
    const values = Config.resolve(declaration.parameters, config).asObject();
    this.#session = new Session(streamlet, {
      send: (frames) => this.#cutter.push(frames, (body) => this.#receive(decodeBody(body))),
      refused() {},
      broken: (reason) => (this.#broken = { reason }),
      pings: true,
      maxInFlight: 32,
    });
    const topics = Object.fromEntries(declaration.inlets.map(({ name }) => [name, `${declaration.name}.${name}`]));
    for (const { name } of declaration.inlets) {
      this.#partitions.set(name, Array.from({ length: partitions }, (_, number) => ({ inlet: name, number, records: [], next: 0 })));
    }
    for (const { name } of declaration.outlets) this.#outlets.set(name, []);
    this.#session.receive(["discover", { protocol: "1.0", supervisor: "testkit" }]);
    this.#session.receive(["start", { conversation: 1, instance: 0, config: values, errors: {}, inlets: topics, outlets: {} }]);
  }

  /** An inlet's queue. */
  inlet(name: string): { put(options: PutOptions): void } {
    const partitions = this.#partitions.get(name);
    if (partitions === undefined) throw new TypeError(`no inlet ${name} is declared`);
    return {
      put: ({ value, key = null, headers = [], timestampMs = 0, partition }) => {
        const keyBytes = bytes(key);
        const number = partition ?? sum(keyBytes) % partitions.length;
        const to = partitions[number];
        if (to === undefined) throw new RangeError(`inlet ${name} has ${partitions.length} partitions, no partition ${number}`);
        to.records.push([to.next++, timestampMs, keyBytes, bytes(value), headers.map(([header, content]) => [bytes(header) ?? new Uint8Array(), bytes(content)])]);
      },
    };
  }

  /** What was written to an outlet, in order. */
  outlet(name: string): { readonly records: readonly WrittenRecord[] } {
    const records = this.#outlets.get(name);
    if (records === undefined) throw new TypeError(`no outlet ${name} is declared`);
    return { records };
  }

  /** Delivers what is in the queues, a partition's batches one behind the other and the partitions beside each other, until they are empty or blocked by a failure. */
  async run({ maxRecords = 100 }: { maxRecords?: number } = {}): Promise<void> {
    await Promise.all([...this.#partitions.values()].flat().map((partition) => this.#drain(partition, maxRecords)));
    if (this.#broken !== null) throw this.#broken.reason;
  }

  async #drain(partition: Partition, maxRecords: number): Promise<void> {
    while (partition.records.length > 0) {
      const id = ++this.#lastId;
      const records = partition.records.slice(0, maxRecords);
      const failures = this.failures.length;
      await new Promise<void>((settled) => {
        this.#flights.set(id, { partition, records, written: [], settled });
        this.#session.receive(["batch", id, partition.inlet, partition.number, records, { attempt: 1 }]);
      });
      if (this.failures.slice(failures).some((failure) => failure.inlet === partition.inlet && failure.partition === partition.number)) return;
    }
  }

  #receive(message: Message): void {
    const [kind, id, third, fourth] = message;
    const flight = this.#flights.get(id as number);
    if (flight === undefined) return;
    switch (kind) {
      case "emit":
        for (const record of fourth as EmittedRaw[]) flight.written.push([third as string, written(record)]);
        return;
      case "forward":
        for (const index of fourth as number[]) {
          const [, , key, value, headers] = flight.records[index] as RawRecord;
          flight.written.push([third as string, written([key, value, headers, null])]);
        }
        return;
      case "ack":
        this.batches++;
        if (flight.written.length === 0) this.skipped += flight.records.length;
        for (const [outlet, record] of flight.written) this.#outlets.get(outlet)?.push(record);
        flight.partition.records.splice(0, flight.records.length);
        break;
      case "fail":
        this.failures.push(failureOf(flight, third as FailInfo));
        break;
      default:
        return;
    }
    this.#flights.delete(id as number);
    flight.settled();
  }
}

type EmittedRaw = readonly [Uint8Array | null, Uint8Array | null, RawRecord[4], number | null];

interface FailInfo {
  readonly message: string;
  readonly kind: string;
  readonly detail: string;
  readonly offset?: number;
}

function failureOf({ partition, records }: Flight, { message, kind, detail, offset = undefined }: FailInfo): Failure {
  return { inlet: partition.inlet, partition: partition.number, offsets: records.map(([at]) => at), offset: offset ?? null, message, kind, detail };
}

function written([key, value, headers, timestampMs]: EmittedRaw): WrittenRecord {
  return { key: asBuffer(key), value: asBuffer(value), headers: headers.map(([name, content]) => [asBuffer(name), asBuffer(content)]), timestampMs };
}

function bytes(value: Bytes | null): Uint8Array | null {
  return typeof value === "string" ? Buffer.from(value) : value;
}

/** Spreads keys over partitions; not as Kafka does. */
function sum(key: Uint8Array | null): number {
  return key === null ? 0 : key.reduce((total, byte) => (total * 31 + byte) % 1_000_003, 0);
}
