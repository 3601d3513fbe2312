/** What arrives: records, and the batches they come in. */
export function asBuffer(bytes) {
    return bytes === null ? null : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
/**
 * A record of an inlet. Null and empty are different for key, value and a header's value. Its bytes are not to be
 * written to: an emit of the record without changes sends what arrived.
 */
export class FlowRecord {
    #raw;
    /** Its place in its batch, from 0; what a forward names. */
    index;
    #value;
    constructor(raw, index) {
        this.#raw = raw;
        this.index = index;
    }
    get offset() {
        return this.#raw[0];
    }
    /** Milliseconds since 1970, -1 for none. */
    get timestampMs() {
        return this.#raw[1];
    }
    get key() {
        return asBuffer(this.#raw[2]);
    }
    /** Null is a tombstone. */
    get value() {
        return (this.#value ??= asBuffer(this.#raw[3]));
    }
    /** In their order, repeated names included. */
    get headers() {
        return this.#raw[4].map(([name, value]) => [asBuffer(name), asBuffer(value)]);
    }
    /** The value of the last header of that name; undefined where there is none. */
    header(name) {
        const wanted = Buffer.from(name);
        const found = this.#raw[4].findLast((header) => wanted.equals(header[0]));
        return found === undefined ? undefined : asBuffer(found[1]);
    }
    /** The value as text; null for a tombstone. */
    text() {
        return this.value?.toString() ?? null;
    }
    /** The value as JSON. Throws SyntaxError where it is none, also for a tombstone. */
    json() {
        const { value } = this;
        if (value === null)
            throw new SyntaxError("the record has no value (a tombstone), so no JSON");
        return JSON.parse(value.toString());
    }
}
