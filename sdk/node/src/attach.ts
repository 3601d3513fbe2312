/**
 * Finds the `ankka-flow run --attach` that waits for a program started by hand, and speaks with it. It listens at a
 * Unix socket, `.ankka-flow/attach.sock` in the folder where it runs; programs look in their own and upwards.
 * FLOW_ATTACH names another path, and then only that one is tried. stdin, stdout and the inspector stay the program's.
 *
 * Everything is in the main thread, so a debugger that stops it stops the reading as well: nobody minds, for there are
 * no pings and no time limits here. Rejected: the reader thread of the pipes, for a Unix socket cannot be opened a second
 * time and Node gives away no descriptor of one. So a write does not block, and what is still in memory at process.exit
 * is lost with the connection: its batch was not acknowledged, and comes again.
 */
import { connect, type Socket } from "node:net";
import { FrameCutter, faultOf } from "./frames.js";
import type { Channel, LinkEvents } from "./link.js";

const VARIABLE = "FLOW_ATTACH";

/** FLOW_ATTACH names a socket at which nobody listens. */
export class AttachError extends Error {
  override readonly name = "AttachError";
}

/** The connection to a supervisor that waits, or null where none does. Throws AttachError. */
export async function findSupervisor(): Promise<Socket | null> {
  const named = process.env[VARIABLE];
  if (named !== undefined && named !== "") {
    try {
      return await connected(named);
    } catch (error) {
      throw new AttachError(`${VARIABLE}=${named}: ${(error as NodeJS.ErrnoException).code}; does \`ankka-flow run --attach\` run there?`);
    }
  }
  const depth = process.cwd().split("/").filter((folder) => folder !== "").length;
  for (let up = 0; up <= depth; up++) {
    try {
      return await connected(`${"../".repeat(up)}.ankka-flow/attach.sock`); // relative: a Unix socket's path may not be long
    } catch {
      // Not there, nobody listens any more, or not ours: look further up.
    }
  }
  return null;
}

function connected(path: string): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ path });
    socket.once("error", reject).once("connect", () => {
      socket.off("error", reject);
      resolve(socket);
    });
  });
}

/** The two directions of the socket. */
export class AttachedLink implements Channel {
  readonly #socket: Socket;

  constructor(socket: Socket, events: LinkEvents) {
    this.#socket = socket;
    const cutter = new FrameCutter();
    let problem: string | null = null;
    socket.on("data", (chunk) => {
      try {
        cutter.push(chunk, (body) => events.body(body));
      } catch (error) {
        problem = faultOf(error);
        socket.destroy();
      }
    });
    socket.on("error", () => {}); // a reset is the supervisor's end as well, and "close" follows
    socket.on("close", () => events.end(problem ?? cutter.brokenOff()));
  }

  send(bytes: Uint8Array): void {
    if (this.#socket.writable) this.#socket.write(bytes);
  }
}
