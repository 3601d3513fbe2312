/**
 * The two pipes. A worker thread reads, so that reading goes on, pings are answered and the supervisor's end is seen
 * while the main thread writes or a handler computes. The main thread writes, whole frames in one blocking call: what
 * was sent is in the pipe when `send` returns, so that nothing is lost at process.exit, and a full pipe slows the
 * sender instead of filling memory. A lock in shared memory keeps the two threads' frames apart.
 */
import { writeSync } from "node:fs";
import { Worker } from "node:worker_threads";
import type { FromReader, ReaderData } from "./reader.js";
import type { Wire } from "./takeover.js";
import { WireLock } from "./wirelock.js";

export interface LinkEvents {
  /** A frame's body, in the order in which they came. */
  body(body: Uint8Array): void;
  /** The end of input, which means that the supervisor is gone; `problem` says what was wrong with it, if something was. */
  end(problem: string | null): void;
}

/** Where a session's frames go. */
export interface Channel {
  /** Sends bytes that are whole frames. */
  send(bytes: Uint8Array): void;
}

export class Link implements Channel {
  readonly #output: number;
  readonly #lock = new WireLock();
  readonly #events: LinkEvents;

  constructor(wire: Wire, events: LinkEvents) {
    this.#output = wire.output;
    this.#events = events;
    const workerData: ReaderData = { ...wire, lock: this.#lock.memory };
    // No execArgv: a loader or --inspect-brk is for the user's code.
    const worker = new Worker(new URL("./reader.js", import.meta.url), { workerData, execArgv: [], name: "ankka-flow reader" });
    worker.on("message", (message: FromReader) => {
      if (message instanceof Uint8Array) events.body(message);
      else events.end(message.problem);
    });
    worker.on("error", (error) => events.end(error.message));
  }

  /** Writes bytes that are whole frames. Blocks while the pipe is full. */
  send(bytes: Uint8Array): void {
    this.#lock.acquire();
    try {
      writeAll(this.#output, bytes);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EPIPE") throw error;
      this.#events.end(null); // nobody reads any more
    } finally {
      this.#lock.release();
    }
  }
}

/** Writes every byte, also to a descriptor that somebody made non-blocking. */
export function writeAll(fd: number, bytes: Uint8Array): void {
  for (let at = 0; at < bytes.length; ) {
    try {
      at += writeSync(fd, bytes, at);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EAGAIN") throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
    }
  }
}
