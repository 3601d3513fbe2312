/** The frames of a batch's emits. Written by hand because the size of each record counts, and because it is the hot path. */
import { encodeFrame } from "./frames.js";
/** Emits are sent when this many bytes are waiting, so that a batch that emits much does not wait in memory. */
const FLUSH_BYTES = 1_048_576;
/** More than an emit's array, kind, id, outlet and the header of its records take. */
const ENVELOPE_BYTES = 128;
/** An emitted record over the limit. It fails its batch. */
export class RecordTooLargeError extends Error {
    name = "RecordTooLargeError";
}
/** The emits of one batch to one outlet, in order. */
export class EmitBuffer {
    #id;
    #outlet;
    #limits;
    #send;
    #records = Buffer.allocUnsafe(4_096);
    #used = 0;
    #count = 0;
    #forwards = [];
    constructor(id, outlet, limits, send) {
        this.#id = id;
        this.#outlet = outlet;
        this.#limits = limits;
        this.#send = send;
    }
    /** Takes an emit. `own` tells a record of this batch, which goes out as a forward where nothing is changed. */
    add({ record, changes }, own) {
        if (record !== null && Object.keys(changes).length === 0 && own(record)) {
            this.#flushRecords();
            this.#forwards.push(record.index);
            return;
        }
        this.#flushForwards();
        const key = bytesOf(changes.key === undefined ? (record?.key ?? null) : changes.key, "key");
        const value = bytesOf(valueOf(changes, record), "value");
        const headers = changes.headers === undefined ? (record?.headers ?? []) : changes.headers.map(headerOf);
        const timestamp = timestampOf(changes.timestampMs);
        const size = recordSize(key, value, headers, timestamp);
        if (size > this.#limits.maxRecordBytes) {
            throw new RecordTooLargeError(`a record for outlet ${this.#outlet} has ${size} bytes as encoded, the limit is ${this.#limits.maxRecordBytes}; store large values elsewhere and emit a reference`);
        }
        if (this.#used + size + ENVELOPE_BYTES > this.#limits.maxFrameBytes)
            this.#flushRecords();
        this.#reserve(size);
        this.#write(key, value, headers, timestamp);
        this.#count++;
        if (this.#used >= FLUSH_BYTES)
            this.#flushRecords();
    }
    /** Sends what is waiting. */
    flush() {
        this.#flushForwards();
        this.#flushRecords();
    }
    #flushForwards() {
        if (this.#forwards.length === 0)
            return;
        this.#send(encodeFrame(["forward", this.#id, this.#outlet, this.#forwards]));
        this.#forwards = [];
    }
    #flushRecords() {
        if (this.#count === 0)
            return;
        const head = encodeFrame(["emit", this.#id, this.#outlet]);
        head[4] = 0x94; // the array has one element more: the records
        const array = Buffer.from([0xdd, 0, 0, 0, 0]);
        array.writeUInt32BE(this.#count, 1);
        head.writeUInt32BE(head.length - 4 + array.length + this.#used, 0);
        this.#send(Buffer.concat([head, array, this.#records.subarray(0, this.#used)]));
        this.#used = this.#count = 0;
    }
    #reserve(size) {
        if (this.#used + size <= this.#records.length)
            return;
        const larger = Buffer.allocUnsafe(Math.max(2 * this.#records.length, this.#used + size));
        larger.set(this.#records.subarray(0, this.#used));
        this.#records = larger;
    }
    #write(key, value, headers, timestamp) {
        const to = this.#records;
        let at = this.#used;
        to[at++] = 0x94;
        at = writeBin(to, at, key);
        at = writeBin(to, at, value);
        at = writeArrayHeader(to, at, headers.length);
        for (const [name, content] of headers) {
            to[at++] = 0x92;
            at = writeBin(to, at, name);
            at = writeBin(to, at, content);
        }
        this.#used = writeTimestamp(to, at, timestamp);
    }
}
function valueOf(changes, record) {
    if (changes.json !== undefined) {
        if (changes.value !== undefined)
            throw new TypeError("an emit has a value or a json, not both");
        return JSON.stringify(changes.json);
    }
    return changes.value === undefined ? (record?.value ?? null) : changes.value;
}
function bytesOf(value, what) {
    if (value === null || value instanceof Uint8Array)
        return value;
    if (typeof value === "string")
        return Buffer.from(value);
    throw new TypeError(`an emit's ${what} must be a string, bytes or null, not ${typeof value}`);
}
function headerOf([name, value]) {
    const bytes = bytesOf(name, "header name");
    if (bytes === null)
        throw new TypeError("a header's name may be empty, but not null");
    return [bytes, bytesOf(value, "header value")];
}
function timestampOf(timestamp) {
    if (timestamp === undefined)
        return null;
    if (!Number.isSafeInteger(timestamp) || timestamp < -1)
        throw new TypeError(`an emit's timestampMs must be whole milliseconds since 1970, or -1 for none, not ${timestamp}`);
    return timestamp;
}
/** The bytes of a record's array as it is encoded here. */
function recordSize(key, value, headers, timestamp) {
    let size = 1 + binSize(key) + binSize(value) + arrayHeaderSize(headers.length);
    for (const [name, content] of headers)
        size += 1 + binSize(name) + binSize(content);
    return size + (timestamp === null || timestamp === -1 ? 1 : 9);
}
function binSize(bytes) {
    if (bytes === null)
        return 1;
    const { length } = bytes;
    return length + (length < 256 ? 2 : length < 65_536 ? 3 : 5);
}
function arrayHeaderSize(length) {
    return length < 16 ? 1 : length < 65_536 ? 3 : 5;
}
function writeBin(to, at, bytes) {
    if (bytes === null) {
        to[at] = 0xc0;
        return at + 1;
    }
    const { length } = bytes;
    if (length < 256) {
        to[at] = 0xc4;
        to[at + 1] = length;
        at += 2;
    }
    else if (length < 65_536) {
        to[at] = 0xc5;
        at = to.writeUInt16BE(length, at + 1);
    }
    else {
        to[at] = 0xc6;
        at = to.writeUInt32BE(length, at + 1);
    }
    to.set(bytes, at);
    return at + length;
}
function writeArrayHeader(to, at, length) {
    if (length < 16) {
        to[at] = 0x90 | length;
        return at + 1;
    }
    to[at] = length < 65_536 ? 0xdc : 0xdd;
    return length < 65_536 ? to.writeUInt16BE(length, at + 1) : to.writeUInt32BE(length, at + 1);
}
function writeTimestamp(to, at, timestamp) {
    if (timestamp === null || timestamp === -1) {
        to[at] = timestamp === null ? 0xc0 : 0xff;
        return at + 1;
    }
    to[at] = 0xcf;
    return to.writeBigUInt64BE(BigInt(timestamp), at + 1);
}
