/** What arrives: records, and the batches they come in. */

/** A record's header as it arrived. A name need not be UTF-8. */
export type Header = readonly [name: Buffer, value: Buffer | null];

/** The record's array in a batch: offset, timestamp, key, value, headers. */
export type RawRecord = readonly [number, number, Uint8Array | null, Uint8Array | null, readonly (readonly [Uint8Array, Uint8Array | null])[]];

/** A view of bytes as a Buffer, without a copy. */
export function asBuffer(bytes: Uint8Array): Buffer;
export function asBuffer(bytes: Uint8Array | null): Buffer | null;
export function asBuffer(bytes: Uint8Array | null): Buffer | null {
  return bytes === null ? null : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/**
 * A record of an inlet. Null and empty are different for key, value and a header's value. Its bytes are not to be
 * written to: an emit of the record without changes sends what arrived.
 */
export class FlowRecord {
  readonly #raw: RawRecord;
  /** Its place in its batch, from 0; what a forward names. */
  readonly index: number;
  #value: Buffer | null | undefined;

  constructor(raw: RawRecord, index: number) {
    this.#raw = raw;
    this.index = index;
  }

  get offset(): number {
    return this.#raw[0];
  }
  /** Milliseconds since 1970, -1 for none. */
  get timestampMs(): number {
    return this.#raw[1];
  }
  get key(): Buffer | null {
    return asBuffer(this.#raw[2]);
  }
  /** Null is a tombstone. */
  get value(): Buffer | null {
    return (this.#value ??= asBuffer(this.#raw[3]));
  }
  /** In their order, repeated names included. */
  get headers(): Header[] {
    return this.#raw[4].map(([name, value]) => [asBuffer(name), asBuffer(value)]);
  }

  /** The value of the last header of that name; undefined where there is none. */
  header(name: string): Buffer | null | undefined {
    const wanted = Buffer.from(name);
    const found = this.#raw[4].findLast((header) => wanted.equals(header[0]));
    return found === undefined ? undefined : asBuffer(found[1]);
  }

  /** The value as text; null for a tombstone. */
  text(): string | null {
    return this.value?.toString() ?? null;
  }

  /** The value as JSON. Throws SyntaxError where it is none, also for a tombstone. */
  json<T = unknown>(): T {
    const { value } = this;
    if (value === null) throw new SyntaxError("the record has no value (a tombstone), so no JSON");
    return JSON.parse(value.toString()) as T;
  }
}

/** Records of one partition, at least one, in the order of their offsets. */
export interface Batch {
  /** The inlet's name. */
  readonly inlet: string;
  readonly partition: number;
  readonly records: readonly FlowRecord[];
}
