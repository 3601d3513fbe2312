/** Inlets, outlets, and what is emitted to them. */
import { createHash } from "node:crypto";
import { noteMade } from "./current.js";
import type { FlowRecord } from "./records.js";

/** What can be a key, a value, a header's name or its value: bytes, or text, which becomes its UTF-8. */
export type Bytes = Uint8Array | string;
export type EmittedHeader = readonly [name: Bytes, value: Bytes | null];

/** The Base64 of the SHA-256 of a schema's name. */
export function fingerprint(schemaName: string): string {
  return createHash("sha256").update(schemaName).digest("base64");
}

class JsonPort {
  readonly name: string;
  readonly schemaName: string;
  readonly format = "json";

  constructor(name: string, { schemaName }: { schemaName: string }) {
    if (!/^[a-z][a-z0-9-]{0,62}$/.test(name)) throw new TypeError(`the port name ${JSON.stringify(name)} must match [a-z][a-z0-9-]{0,62}`);
    if (typeof schemaName !== "string" || schemaName === "") throw new TypeError(`the port ${name} needs a schemaName`);
    this.name = name;
    this.schemaName = schemaName;
  }

  get fingerprint(): string {
    return fingerprint(this.schemaName);
  }
}

/** Where records come from. Its topic is configured, not coded. */
export class JsonInlet extends JsonPort {
  readonly kind = "inlet";
}

export interface EmitOptions {
  /** The value; null is a tombstone. Left out: the record's. */
  value?: Bytes | null;
  /** The value, to be written as JSON. Instead of `value`. */
  json?: unknown;
  /** The key, which chooses the partition; null spreads. Left out: the record's. */
  key?: Bytes | null;
  /** Left out: the record's. */
  headers?: readonly EmittedHeader[];
  /** Milliseconds since 1970, -1 for none. Left out: stamped when written. */
  timestampMs?: number;
}

/** A record on its way to an outlet. It is written when the handler has returned or yielded it, and its batch is acknowledged. */
export interface Emit {
  readonly outlet: JsonOutlet;
  /** The record it was made from, if any. */
  readonly record: FlowRecord | null;
  readonly changes: EmitOptions;
}

/** Where records go. */
export class JsonOutlet extends JsonPort {
  readonly kind = "outlet";

  /**
   * Makes an emit: the record, with what `changes` says instead. Without a record, what is left out is null. It only
   * makes it: what the handler does not return or yield is not written.
   */
  emit(record: FlowRecord | null, changes?: EmitOptions): Emit;
  emit(changes: EmitOptions): Emit;
  emit(first: FlowRecord | EmitOptions | null, changes: EmitOptions = {}): Emit {
    noteMade();
    if (first === null || isRecord(first)) return { outlet: this, record: first, changes };
    return { outlet: this, record: null, changes: first };
  }

  /** Makes an emit of a record with that key and no value. */
  tombstone(key: Bytes, headers: readonly EmittedHeader[] = []): Emit {
    return this.emit({ key, value: null, headers });
  }
}

function isRecord(value: object): value is FlowRecord {
  return "offset" in value && "index" in value;
}

/** Tells an emit from anything else that a handler may return. */
export function isEmit(value: unknown): value is Emit {
  return typeof value === "object" && value !== null && (value as Emit).outlet instanceof JsonOutlet;
}
