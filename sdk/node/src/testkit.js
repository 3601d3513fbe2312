/** Runs a streamlet in a test, without a supervisor and without a broker. */
import { decodeBody, FrameCutter } from "./frames.js";
import { Config } from "./parameters.js";
import { asBuffer } from "./records.js";
import { Session } from "./session.js";
import { declarationOf } from "./streamlet.js";
/** A streamlet with queues instead of topics. What it says crosses the same protocol as it does with the supervisor. */
export class Harness {
    failures = [];
    /** The records of acknowledged batches that emitted nothing at all. */
    skipped = 0;
    /** How many batches were acknowledged. */
    batches = 0;
    #session;
    #cutter = new FrameCutter();
    #partitions = new Map();
    #outlets = new Map();
    #flights = new Map();
    #lastId = 0;
    #broken = null;
    constructor(streamlet, { config = {}, partitions = 3 } = {}) {
        const declaration = declarationOf(streamlet);
        const values = Config.resolve(declaration.parameters, config).asObject();
        this.#session = new Session(streamlet, {
            send: (frames) => this.#cutter.push(frames, (body) => this.#receive(decodeBody(body))),
            refused() { },
            broken: (reason) => (this.#broken = { reason }),
            pings: true,
            maxInFlight: 32,
        });
        const topics = Object.fromEntries(declaration.inlets.map(({ name }) => [name, `${declaration.name}.${name}`]));
        for (const { name } of declaration.inlets) {
            this.#partitions.set(name, Array.from({ length: partitions }, (_, number) => ({ inlet: name, number, records: [], next: 0 })));
        }
        for (const { name } of declaration.outlets)
            this.#outlets.set(name, []);
        this.#session.receive(["discover", { protocol: "1.0", supervisor: "testkit" }]);
        this.#session.receive(["start", { conversation: 1, instance: 0, config: values, errors: {}, inlets: topics, outlets: {} }]);
    }
    /** An inlet's queue. */
    inlet(name) {
        const partitions = this.#partitions.get(name);
        if (partitions === undefined)
            throw new TypeError(`no inlet ${name} is declared`);
        return {
            put: ({ value, key = null, headers = [], timestampMs = 0, partition }) => {
                const keyBytes = bytes(key);
                const number = partition ?? sum(keyBytes) % partitions.length;
                const to = partitions[number];
                if (to === undefined)
                    throw new RangeError(`inlet ${name} has ${partitions.length} partitions, no partition ${number}`);
                to.records.push([to.next++, timestampMs, keyBytes, bytes(value), headers.map(([header, content]) => [bytes(header) ?? new Uint8Array(), bytes(content)])]);
            },
        };
    }
    /** What was written to an outlet, in order. */
    outlet(name) {
        const records = this.#outlets.get(name);
        if (records === undefined)
            throw new TypeError(`no outlet ${name} is declared`);
        return { records };
    }
    /** Delivers what is in the queues, a partition's batches one behind the other and the partitions beside each other, until they are empty or blocked by a failure. */
    async run({ maxRecords = 100 } = {}) {
        await Promise.all([...this.#partitions.values()].flat().map((partition) => this.#drain(partition, maxRecords)));
        if (this.#broken !== null)
            throw this.#broken.reason;
    }
    async #drain(partition, maxRecords) {
        while (partition.records.length > 0) {
            const id = ++this.#lastId;
            const records = partition.records.slice(0, maxRecords);
            const failures = this.failures.length;
            await new Promise((settled) => {
                this.#flights.set(id, { partition, records, written: [], settled });
                this.#session.receive(["batch", id, partition.inlet, partition.number, records, { attempt: 1 }]);
            });
            if (this.failures.slice(failures).some((failure) => failure.inlet === partition.inlet && failure.partition === partition.number))
                return;
        }
    }
    #receive(message) {
        const [kind, id, third, fourth] = message;
        const flight = this.#flights.get(id);
        if (flight === undefined)
            return;
        switch (kind) {
            case "emit":
                for (const record of fourth)
                    flight.written.push([third, written(record)]);
                return;
            case "forward":
                for (const index of fourth) {
                    const [, , key, value, headers] = flight.records[index];
                    flight.written.push([third, written([key, value, headers, null])]);
                }
                return;
            case "ack":
                this.batches++;
                if (flight.written.length === 0)
                    this.skipped += flight.records.length;
                for (const [outlet, record] of flight.written)
                    this.#outlets.get(outlet)?.push(record);
                flight.partition.records.splice(0, flight.records.length);
                break;
            case "fail":
                this.failures.push(failureOf(flight, third));
                break;
            default:
                return;
        }
        this.#flights.delete(id);
        flight.settled();
    }
}
function failureOf({ partition, records }, { message, kind, detail, offset = undefined }) {
    return { inlet: partition.inlet, partition: partition.number, offsets: records.map(([at]) => at), offset: offset ?? null, message, kind, detail };
}
function written([key, value, headers, timestampMs]) {
    return { key: asBuffer(key), value: asBuffer(value), headers: headers.map(([name, content]) => [asBuffer(name), asBuffer(content)]), timestampMs };
}
function bytes(value) {
    return typeof value === "string" ? Buffer.from(value) : value;
}
/** Spreads keys over partitions; not as Kafka does. */
function sum(key) {
    return key === null ? 0 : key.reduce((total, byte) => (total * 31 + byte) % 1_000_003, 0);
}
