/**
 * The process's side of the protocol, without IO: messages in, messages out. It knows who may send what when, which
 * batches owe an answer, and what a `stop` waits for; it does not know pipes, threads or how a process exits.
 */
import { BatchRun, checked, type Labels, type RawBatch, type RunScope } from "./batchrun.js";
import { Context } from "./context.js";
import { descriptorOf } from "./descriptor.js";
import * as expect from "./expect.js";
import { encodeFrame, MAX_FRAME_BYTES, MAX_RECORD_BYTES, type Message } from "./frames.js";
import { Config, type ConfigValue } from "./parameters.js";
import { handle } from "./runner.js";
import { declarationOf, Streamlet } from "./streamlet.js";
import { ProtocolError } from "./wellformed.js";

export type State = "new" | "asked" | "ready" | "running" | "finishing" | "stopped";

export interface SessionEnd {
  /** Sends bytes that are whole frames. */
  send(frames: Uint8Array): void;
  /** The supervisor refuses this streamlet: say why and exit. */
  refused(problems: readonly string[]): void;
  /** `configure` failed: the process cannot go on. */
  broken(reason: unknown): void;
  /** Whether pings are answered also while handlers compute. */
  readonly pings: boolean;
  readonly maxInFlight: number;
}

/** Messages kept until the supervisor may be sent them; later ones are dropped. */
const MAX_EARLY = 1_000;

export class Session implements RunScope {
  readonly outlets: ReadonlySet<string>;
  readonly #streamlet: Streamlet;
  readonly #descriptor: object;
  readonly #end: SessionEnd;
  readonly #owed = new Map<number, BatchRun>();
  #state: State = "new";
  #limits = { maxFrameBytes: MAX_FRAME_BYTES, maxRecordBytes: MAX_RECORD_BYTES };
  #topics: Readonly<Record<string, string>> = {};
  /** Settles when this conversation's `configure` has returned. */
  #configured: Promise<void> | null = null;
  #early: Message[] = [];
  #lastId = -1;

  /** Throws TypeError that says everything that is wrong with the streamlet. */
  constructor(streamlet: Streamlet, end: SessionEnd) {
    const declaration = declarationOf(streamlet);
    this.#streamlet = streamlet;
    this.#descriptor = descriptorOf(declaration);
    this.#end = end;
    this.outlets = new Set(declaration.outlets.map((outlet) => outlet.name));
    Streamlet.connect(streamlet, {
      log: (level, message, fields) => this.#whenReady(["log", level, message, fields]),
      counter: (name, increment, labels) => this.#report(name, "counter", increment, labels),
      gauge: (name, value, labels) => this.#report(name, "gauge", value, labels),
    });
  }

  get state(): State {
    return this.#state;
  }
  get limits(): { maxFrameBytes: number; maxRecordBytes: number } {
    return this.#limits;
  }
  /** The batches that owe an answer, void ones included. */
  get owed(): number {
    return this.#owed.size;
  }

  send(frames: Uint8Array): void {
    this.#end.send(frames);
  }

  /** Takes the supervisor's next message. Throws ProtocolError, after which the process must exit. */
  receive(message: Message): void {
    switch (message[0]) {
      case "discover":
        return this.#discover(message);
      case "refuse":
        return this.#end.refused(expect.array(message[1], "refuse: problems").map((problem) => expect.text(problem, "refuse: a problem")));
      case "start":
        return this.#start(message);
      case "batch":
        return this.#batch(message);
      case "revoke":
        if (this.#state === "new") throw new ProtocolError("revoke before discover");
        // For a batch that is owed nothing it crossed the answer.
        return this.#owed.get(expect.count(message[1], "revoke: id"))?.makeVoid("its partition was taken away");
      case "ping":
        return this.#say(["pong", expect.count(message[1], "ping: n")]);
      case "stop":
        return this.#stop(message);
      default: // A later version's message, which is not sent to a process of this one.
        process.stderr.write(`ankka-flow: ignored a message of the unknown kind ${JSON.stringify(message[0].slice(0, 64))}\n`);
    }
  }

  #say(message: Message): void {
    this.#end.send(encodeFrame(message));
  }

  #require(kind: string, ...states: State[]): void {
    if (!states.includes(this.#state)) throw new ProtocolError(`${kind} in the state ${this.#state}`);
  }

  #discover([, found]: Message): void {
    this.#require("discover", "new", "stopped");
    const info = expect.map(found, "discover: its map");
    this.#limits = {
      maxFrameBytes: Math.min(limit(info, "max_frame_bytes") ?? MAX_FRAME_BYTES, MAX_FRAME_BYTES),
      maxRecordBytes: limit(info, "max_record_bytes") ?? MAX_RECORD_BYTES,
    };
    this.#state = "asked";
    this.#say(["spec", this.#descriptor, { ping: this.#end.pings, max_in_flight: this.#end.maxInFlight, errors: false }]);
    this.#state = "ready";
    for (const message of this.#early.splice(0)) this.#say(message);
  }

  #start([, found]: Message): void {
    this.#require("start", "ready");
    const info = expect.map(found, "start: its map");
    const config = expect.map(info["config"], "start: config");
    this.#topics = expect.texts(info["inlets"], "start: inlets");
    this.#state = "running";
    Streamlet.configure(this.#streamlet, new Config(config as Readonly<Record<string, ConfigValue>>));
    this.#configured = null;
    if (this.#streamlet.configure === undefined) return;
    const configure = async (): Promise<void> => this.#streamlet.configure?.();
    this.#configured = configure().catch((reason: unknown) => this.#end.broken(reason));
  }

  #batch([, id, inlet, partition, records, info]: Message): void {
    this.#require("batch", "running");
    const batch: RawBatch = {
      id: expect.count(id, "batch: id"),
      inlet: expect.text(inlet, "batch: inlet"),
      partition: expect.count(partition, "batch: partition"),
      records: expect.records(records, "batch: records"),
      attempt: expect.count(expect.map(info, "batch: info")["attempt"] ?? 1, "batch: attempt"),
    };
    if (batch.id <= this.#lastId) throw new ProtocolError(`batch ${batch.id} after batch ${this.#lastId}: ids rise`);
    this.#lastId = batch.id;
    const run = new BatchRun(batch, this);
    this.#owed.set(run.id, run);
    void this.#handle(run, new Context(run, this.#topics[run.inlet] ?? ""));
  }

  async #handle(run: BatchRun, context: Context): Promise<void> {
    await this.#configured;
    await handle(this.#streamlet, run, context);
    this.#owed.delete(run.id);
    this.#endIfFinished();
  }

  #stop([, found]: Message): void {
    const info = expect.map(found, "stop: its map");
    const mode = expect.text(info["mode"], "stop: mode");
    if (mode !== "finish" && mode !== "abandon") throw new ProtocolError(`stop: mode is ${JSON.stringify(mode.slice(0, 64))}, not finish or abandon`);
    const reason = expect.text(info["reason"] ?? "the conversation was ended", "stop: reason");
    if (this.#state === "stopped") return; // it crossed our stopped
    this.#require("stop", "running", "finishing");
    this.#state = "finishing";
    if (mode === "abandon") for (const run of this.#owed.values()) run.makeVoid(reason);
    this.#endIfFinished();
  }

  #endIfFinished(): void {
    if (this.#state !== "finishing") return;
    for (const run of this.#owed.values()) if (!run.isVoid) return;
    this.#state = "stopped";
    this.#say(["stopped"]);
  }

  #report(name: string, kind: "counter" | "gauge", number: number, labels: Labels | null): void {
    this.#whenReady(["report", null, [checked([name, kind, labels, number])]]);
  }

  #whenReady(message: Message): void {
    if (this.#state !== "new" && this.#state !== "asked") this.#say(message);
    else if (this.#early.length < MAX_EARLY) this.#early.push(message);
  }
}

function limit(info: expect.Keyed, name: string): number | undefined {
  const found = info[name] ?? undefined;
  return found === undefined ? undefined : expect.count(found, `discover: ${name}`);
}
