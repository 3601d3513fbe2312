/** What the supervisor's messages hold, checked. Each throws ProtocolError that names the place. */
import { ProtocolError } from "./wellformed.js";
import type { RawRecord } from "./records.js";

export type Keyed = Readonly<Record<string, unknown>>;

/** A whole number from 0. */
export function count(value: unknown, where: string): number {
  if (!Number.isSafeInteger(value) || (value as number) < 0) throw wrong(value, where, "a whole number from 0 to 2^53 - 1");
  return value as number;
}

export function text(value: unknown, where: string): string {
  if (typeof value !== "string") throw wrong(value, where, "text");
  return value;
}

/** A map; what is missing is an empty one. */
export function map(value: unknown, where: string): Keyed {
  if (value === undefined || value === null) return {};
  if (typeof value !== "object" || Array.isArray(value) || value instanceof Uint8Array) throw wrong(value, where, "a map");
  return value as Keyed;
}

/** A map of texts. */
export function texts(value: unknown, where: string): Readonly<Record<string, string>> {
  const found = map(value, where);
  for (const [key, field] of Object.entries(found)) text(field, `${where}.${key}`);
  return found as Readonly<Record<string, string>>;
}

export function array(value: unknown, where: string): readonly unknown[] {
  if (!Array.isArray(value)) throw wrong(value, where, "an array");
  return value as readonly unknown[];
}

/** A batch's records, at least one. */
export function records(value: unknown, where: string): readonly RawRecord[] {
  const found = array(value, where);
  if (found.length === 0) throw new ProtocolError(`${where} is empty`);
  for (const record of found) {
    if (!isRecord(record)) throw new ProtocolError(`${where} holds a record that is not [offset, timestamp_ms, key, value, headers]`);
  }
  return found as readonly RawRecord[];
}

function isRecord(record: unknown): boolean {
  if (!Array.isArray(record)) return false;
  const [offset, timestamp, key, value, headers] = record as unknown[];
  return Number.isInteger(offset) && Number.isInteger(timestamp) && isBytes(key) && isBytes(value) && Array.isArray(headers) && headers.every(isHeader);
}

function isHeader(header: unknown): boolean {
  return Array.isArray(header) && header[0] instanceof Uint8Array && isBytes(header[1]);
}

function isBytes(value: unknown): boolean {
  return value === null || value instanceof Uint8Array;
}

function wrong(value: unknown, where: string, due: string): ProtocolError {
  const found = value === undefined ? "missing" : value === null ? "nil" : Array.isArray(value) ? "an array" : value instanceof Uint8Array ? "bytes" : typeof value === "object" ? "a map" : JSON.stringify(value).slice(0, 80);
  return new ProtocolError(`${where} is ${found}, not ${due}`);
}
