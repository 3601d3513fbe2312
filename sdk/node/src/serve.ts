/** Connects a streamlet with the supervisor that launched this program. */
import type { Socket } from "node:net";
import { relative } from "node:path";
import { inspect } from "node:util";
import { AttachedLink, findSupervisor } from "./attach.js";
import { current } from "./current.js";
import { decodeBody, faultOf } from "./frames.js";
import { Link, type Channel, type LinkEvents } from "./link.js";
import { Session } from "./session.js";
import { declarationOf, type Streamlet } from "./streamlet.js";
import { wire, type Wire } from "./takeover.js";

export interface ServeOptions {
  /** How many batches, each of another partition, may be handled at a time. Default 32. */
  maxInFlight?: number;
}

/** How long a streamlet's `close` has, in milliseconds. */
const CLOSE_MS = 5_000;

let serving = false;

/**
 * Serves the streamlet to the ankka-flow that launched this program, until that ends; then the process exits. A
 * program that was started by hand attaches to the `ankka-flow run --attach` that waits in its folder or above; where
 * none does, it says how to run it, and exits with 2. Throws TypeError that says everything that is wrong with the
 * streamlet.
 */
export function serve(streamlet: Streamlet, { maxInFlight = 32 }: ServeOptions = {}): void {
  if (!Number.isSafeInteger(maxInFlight) || maxInFlight < 1) throw new TypeError(`maxInFlight must be a whole number, 1 or more, not ${maxInFlight}`);
  if (serving) throw new Error("serve was called before; a process serves one streamlet");
  const { name } = declarationOf(streamlet);
  serving = true;
  if (wire === null) {
    void attach(streamlet, name, maxInFlight);
  } else {
    const to: Wire = wire;
    converse(streamlet, { maxInFlight, pings: true }, (events) => new Link(to, events));
  }
}

async function attach(streamlet: Streamlet, name: string, maxInFlight: number): Promise<void> {
  let socket: Socket | null;
  try {
    socket = await findSupervisor();
  } catch (error) {
    return die((error as Error).message, 2);
  }
  if (socket === null) return sayHowToRun(name);
  const to = socket;
  process.stderr.write(`ankka-flow: ${name} is attached; stdin and stdout are its own\n`);
  converse(streamlet, { maxInFlight, pings: false }, (events) => new AttachedLink(to, events));
}

/** Has the conversation, until the end of input ends the process. */
function converse(streamlet: Streamlet, can: { maxInFlight: number; pings: boolean }, open: (events: LinkEvents) => Channel): void {
  const session = new Session(streamlet, {
    send: (frames) => channel.send(frames),
    refused: (problems) => die(`ankka-flow refuses this streamlet: ${problems.join("; ")}`),
    broken: (reason) => die(`configure failed: ${inspect(reason)}`),
    ...can,
  });
  let ended = false;
  const channel = open({
    body: (body) => {
      try {
        session.receive(decodeBody(body));
      } catch (error) {
        die(faultOf(error));
      }
    },
    end: (problem) => {
      if (ended) return;
      ended = true;
      if (problem !== null) process.stderr.write(`ankka-flow: ${problem}\n`);
      const code = session.owed > 0 || problem !== null ? 1 : 0;
      void closed(streamlet).then((well) => process.exit(well ? code : 1));
    },
  });
  answerForTheDying();
}

/** Waits for the streamlet's `close`; says whether it went well. */
async function closed(streamlet: Streamlet): Promise<boolean> {
  if (streamlet.close === undefined) return true;
  const timeout = setTimeout(() => die(`close took longer than ${CLOSE_MS} ms`), CLOSE_MS);
  try {
    await streamlet.close();
    return true;
  } catch (error) {
    process.stderr.write(`ankka-flow: close failed: ${inspect(error)}\n`);
    return false;
  } finally {
    clearTimeout(timeout);
  }
}

/**
 * What would end the process, or go unnoticed, inside a handler becomes its batch's failure, so that the supervisor
 * knows which batch it was.
 */
function answerForTheDying(): void {
  process.on("exit", (code) => {
    current.getStore()?.fail(new ExitError(`process.exit(${code}) was called while the batch was handled`));
  });
  process.on("uncaughtExceptionMonitor", (error) => {
    current.getStore()?.fail(error);
  });
  process.on("unhandledRejection", (reason) => {
    const run = current.getStore();
    if (run !== undefined && !run.answered) {
      process.stderr.write(`ankka-flow: a promise that the handler did not wait for was rejected: ${inspect(reason)}\n`);
      run.poison(reason);
    } else if (process.listenerCount("unhandledRejection") === 1) {
      throw reason; // as Node does where nobody listens: the program's state is unknown
    }
  });
}

/** The program called process.exit in a handler. */
class ExitError extends Error {
  override readonly name = "ExitError";
}

function die(why: string, code = 1): never {
  process.stderr.write(`ankka-flow: ${why}\n`);
  process.exit(code);
}

function sayHowToRun(name: string): never {
  const file = process.argv[1] === undefined ? "streamlet.mjs" : relative(process.cwd(), process.argv[1]);
  const node = /\.[mc]?tsx?$/.test(file) ? "npx tsx" : "node";
  process.stderr.write(
    `${name} is a streamlet; nothing sends it records.\n` +
      `  run:   ankka-flow run -- ${node} ${file}\n` +
      "  debug: ankka-flow run --attach, then start this program again, with --inspect or in an editor\n",
  );
  process.exit(2);
}
