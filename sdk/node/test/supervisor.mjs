// A supervisor for tests: launches a streamlet, sends it frames and waits for its own.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { afterEach } from "node:test";
import { fileURLToPath } from "node:url";
import { decodeBody, encodeFrame, FrameCutter } from "../dist/frames.js";

export const streamlet = (name) => fileURLToPath(new URL(`streamlets/${name}`, import.meta.url));
export const utf8 = (text) => new TextEncoder().encode(text);
export const record = (offset, value, key = null, headers = []) => [offset, 1_700_000_000_000, key === null ? null : utf8(key), utf8(value), headers];

// Node gives a child sockets, which cannot be opened a second time; a shell gives it pipes, as ankka-flow does.
const PIPES = 'exec 5>&1; { cat | { "$@"; echo $? >&3; } | cat >&5; } 2>&1 | cat >&2';

const running = new Set();

// What a test that failed left behind would keep its file from ending.
afterEach(() => {
  for (const child of running) child.kill("SIGKILL");
  running.clear();
});

export class Process {
  messages = [];
  stderr = "";
  #waiting = [];
  #child;
  #exit;

  constructor(command, { pipes = true, env = {} } = {}) {
    const words = Array.isArray(command) ? command : [process.execPath, streamlet(command)];
    const [file, ...args] = pipes ? ["sh", "-c", PIPES, "sh", ...words] : words;
    const child = spawn(file, args, { stdio: ["pipe", "pipe", "pipe", "pipe"], env: { ...process.env, ANKKA_FLOW_PROTOCOL: "1.0", ...env } });
    this.#child = child;
    running.add(child);
    const cutter = new FrameCutter();
    child.stdout.on("data", (chunk) => cutter.push(chunk, (body) => this.#take(decodeBody(body))));
    child.stderr.setEncoding("utf8").on("data", (text) => this.#take(null, text));
    let status = "";
    child.stdio[3].setEncoding("utf8").on("data", (text) => {
      status += text;
      child.stdin.end(); // so that the first cat ends too
    });
    child.stdin.on("error", () => {}); // it exits before it has read everything
    this.#exit = once(child, "close").then(([code]) => {
      this.#take(["exit"]);
      return pipes ? Number(status) : code;
    });
  }

  #take(message, text = "") {
    this.stderr += text;
    if (message !== null) this.messages.push(message);
    this.#waiting = this.#waiting.filter((look) => !look());
  }

  pause() {
    this.#child.stdout.pause();
  }
  resume() {
    this.#child.stdout.resume();
  }

  send(...messages) {
    this.#child.stdin.write(Buffer.concat(messages.map(encodeFrame)));
  }

  /** Sends bytes that need be no frames. */
  write(bytes) {
    this.#child.stdin.write(bytes);
  }

  /** Waits until the child has taken everything that was sent. */
  async sent() {
    if (this.#child.stdin.writableNeedDrain) await once(this.#child.stdin, "drain");
  }

  /** Waits for a message of that kind (and id), and gives it. */
  async message(kind, id = undefined) {
    const find = () => this.messages.find((m) => m[0] === kind && (id === undefined || m[1] === id));
    await this.#until(find, `a ${kind} ${id ?? ""}`);
    return find();
  }

  async stderrHas(text) {
    await this.#until(() => this.stderr.includes(text), `stderr with ${text}`);
  }

  #until(look, what) {
    return new Promise((resolve, reject) => {
      const done = () => {
        if (look()) resolve();
        else if (this.messages.some(([kind]) => kind === "exit")) reject(new Error(`the process ended, and there was never ${what}: ${this.stderr}`));
        else return false;
        return true;
      };
      if (!done()) this.#waiting.push(done);
    });
  }

  /** Waits for spec, and starts a conversation. */
  async start({ config = {}, conversation = 1 } = {}) {
    this.send(["discover", { protocol: "1.0", supervisor: "test", max_frame_bytes: 4_194_304, max_record_bytes: 4_128_768 }]);
    const [, descriptor, capabilities] = await this.message("spec");
    this.send(["start", { conversation, instance: 0, pipeline: "test", streamlet: "test", config, errors: {}, inlets: { in: "test.in" }, outlets: { out: "test.out" } }]);
    return { descriptor, capabilities };
  }

  batch(id, records, partition = 0) {
    this.send(["batch", id, "in", partition, records, { attempt: 1 }]);
  }

  /** Everything emitted for a batch, in order. */
  emitted(id) {
    return this.messages.filter((m) => m[0] === "emit" && m[1] === id).flatMap((m) => m[3]);
  }

  /** Ends its input, and gives its exit code. */
  end() {
    this.#child.stdin.end();
    return this.#exit;
  }

  exit() {
    return this.#exit;
  }
}
