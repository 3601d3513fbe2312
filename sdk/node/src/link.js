/**
 * The two pipes. A worker thread reads, so that reading goes on, pings are answered and the supervisor's end is seen
 * while the main thread writes or a handler computes. The main thread writes, whole frames in one blocking call: what
 * was sent is in the pipe when `send` returns, so that nothing is lost at process.exit, and a full pipe slows the
 * sender instead of filling memory. A lock in shared memory keeps the two threads' frames apart.
 */
import { writeSync } from "node:fs";
import { Worker } from "node:worker_threads";
import { WireLock } from "./wirelock.js";
export class Link {
    #output;
    #lock = new WireLock();
    #events;
    constructor(wire, events) {
        this.#output = wire.output;
        this.#events = events;
        const workerData = { ...wire, lock: this.#lock.memory };
        // No execArgv: a loader or --inspect-brk is for the user's code.
        const worker = new Worker(new URL("./reader.js", import.meta.url), { workerData, execArgv: [], name: "ankka-flow reader" });
        worker.on("message", (message) => {
            if (message instanceof Uint8Array)
                events.body(message);
            else
                events.end(message.problem);
        });
        worker.on("error", (error) => events.end(error.message));
    }
    /** Writes bytes that are whole frames. Blocks while the pipe is full. */
    send(bytes) {
        this.#lock.acquire();
        try {
            writeAll(this.#output, bytes);
        }
        catch (error) {
            if (error.code !== "EPIPE")
                throw error;
            this.#events.end(null); // nobody reads any more
        }
        finally {
            this.#lock.release();
        }
    }
}
/** Writes every byte, also to a descriptor that somebody made non-blocking. */
export function writeAll(fd, bytes) {
    for (let at = 0; at < bytes.length;) {
        try {
            at += writeSync(fd, bytes, at);
        }
        catch (error) {
            if (error.code !== "EAGAIN")
                throw error;
            Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
        }
    }
}
