/** The worker thread that reads the supervisor's frames, answers its pings and hands everything else to the main thread. */
import { writeSync } from "node:fs";
import { Session } from "node:inspector";
import { Socket } from "node:net";
import { parentPort, workerData } from "node:worker_threads";
import * as expect from "./expect.js";
import { decodeBody, encodeFrame, faultOf, FrameCutter } from "./frames.js";
import { writeAll } from "./link.js";
import { WireLock } from "./wirelock.js";

export interface ReaderData {
  readonly input: number;
  readonly output: number;
  readonly lock: SharedArrayBuffer;
}

/** A frame's body, or the end of input. */
export type FromReader = Uint8Array | { readonly problem: string | null };

/** How long the main thread may compute on after the end of input, in milliseconds, before the process is ended, and again before it is killed. */
const GRACE_MS = 5_000;
/** A ping is short; a longer frame is not looked into here. */
const LONGEST_PING = 1_024;

if (parentPort !== null) read(parentPort, workerData as ReaderData);

function read(main: NonNullable<typeof parentPort>, data: ReaderData): void {
  const lock = new WireLock(data.lock);
  const cutter = new FrameCutter();
  const socket = new Socket({ fd: data.input, readable: true, writable: false });
  let ended = false;
  const end = (problem: string | null): void => {
    if (ended) return;
    ended = true;
    socket.destroy();
    main.postMessage({ problem } satisfies FromReader);
    // The main thread says so and exits when it takes the message. One that never does would outlive its supervisor.
    setTimeout(() => {
      if (problem !== null) writeSync(2, `ankka-flow: ${problem}\n`);
      exitFromHere();
      setTimeout(() => process.kill(process.pid, "SIGKILL"), GRACE_MS);
    }, GRACE_MS);
  };
  socket.on("data", (chunk) => {
    try {
      cutter.push(chunk, (body) => {
        const pong = pongFor(body);
        if (pong === null) main.postMessage(body satisfies FromReader, [body.buffer]);
        else sendPong(data.output, lock, pong);
      });
    } catch (error) {
      end(faultOf(error));
    }
  });
  socket.on("error", (error) => end(`reading from the supervisor: ${error.message}`));
  socket.on("close", () => end(cutter.brokenOff()));
}

/** Ends the process with 1 while its main thread computes; process.exit would end this thread alone. */
function exitFromHere(): void {
  const session = new Session();
  session.connectToMainThread();
  session.post("Runtime.evaluate", { expression: "process.reallyExit(1)" }); // no handlers of the program's: they had their time
}

function pongFor(body: Uint8Array): Buffer | null {
  if (body.length > LONGEST_PING) return null;
  const [kind, n] = decodeBody(body);
  return kind === "ping" ? encodeFrame(["pong", expect.count(n, "ping: n")]) : null;
}

/** Waiting for the lock in this thread would stop the reading for as long as the main thread's write blocks. */
function sendPong(output: number, lock: WireLock, pong: Buffer): void {
  if (!lock.tryAcquire()) {
    setTimeout(sendPong, 1, output, lock, pong);
    return;
  }
  try {
    writeAll(output, pong);
  } catch {
    // Nobody reads any more: the end of input follows.
  } finally {
    lock.release();
  }
}
