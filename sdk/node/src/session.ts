/**
 * The process's side of the protocol, without IO: messages in, messages out. It knows who may send what when, which
 * batches owe an answer, and what a `stop` waits for; it does not know pipes, threads or how a process exits.
 */
import { BatchRun, checked, type Labels, type RunScope } from "./batchrun.js";
import { Context } from "./context.js";
import { descriptorOf } from "./descriptor.js";
import { encodeFrame, MAX_FRAME_BYTES, MAX_RECORD_BYTES, type Message } from "./frames.js";
import { Config, type ConfigValue } from "./parameters.js";
import { handle } from "./runner.js";
import { declarationOf, Streamlet } from "./streamlet.js";

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

interface StartInfo {
  readonly config: Readonly<Record<string, ConfigValue>>;
  readonly inlets: Readonly<Record<string, string>>;
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

  /** Takes the supervisor's next message. */
  receive(message: Message): void {
    switch (message[0]) {
      case "discover":
        return this.#discover(message[1] as { max_frame_bytes?: number; max_record_bytes?: number });
      case "refuse":
        return this.#end.refused(message[1] as string[]);
      case "start":
        return this.#start(message[1] as StartInfo);
      case "batch":
        return this.#batch(message);
      case "revoke":
        return this.#owed.get(message[1] as number)?.makeVoid("its partition was taken away");
      case "ping":
        return this.#say(["pong", message[1]]);
      case "stop":
        return this.#stop(message[1] as { mode: string; reason?: string });
      default: // A later version's message, which is not sent to a process of this one.
        process.stderr.write(`ankka-flow: ignored a message of the unknown kind ${message[0].slice(0, 64)}\n`);
    }
  }

  #say(message: Message): void {
    this.#end.send(encodeFrame(message));
  }

  #discover(info: { max_frame_bytes?: number; max_record_bytes?: number } | undefined): void {
    this.#state = "asked";
    this.#limits = {
      maxFrameBytes: Math.min(info?.max_frame_bytes ?? MAX_FRAME_BYTES, MAX_FRAME_BYTES),
      maxRecordBytes: info?.max_record_bytes ?? MAX_RECORD_BYTES,
    };
    this.#say(["spec", this.#descriptor, { ping: this.#end.pings, max_in_flight: this.#end.maxInFlight, errors: false }]);
    this.#state = "ready";
    for (const message of this.#early.splice(0)) this.#say(message);
  }

  #start({ config, inlets }: StartInfo): void {
    this.#state = "running";
    this.#topics = inlets;
    Streamlet.configure(this.#streamlet, new Config(config));
    this.#configured = null;
    if (this.#streamlet.configure === undefined) return;
    const configure = async (): Promise<void> => this.#streamlet.configure?.();
    this.#configured = configure().catch((reason: unknown) => this.#end.broken(reason));
  }

  #batch(message: Message): void {
    const run = new BatchRun(message, this);
    this.#owed.set(run.id, run);
    void this.#handle(run, new Context(run, this.#topics[run.inlet] ?? ""));
  }

  async #handle(run: BatchRun, context: Context): Promise<void> {
    await this.#configured;
    await handle(this.#streamlet, run, context);
    this.#owed.delete(run.id);
    this.#endIfFinished();
  }

  #stop({ mode, reason }: { mode: string; reason?: string }): void {
    if (this.#state === "stopped") return;
    this.#state = "finishing";
    if (mode === "abandon") for (const run of this.#owed.values()) run.makeVoid(reason ?? "the conversation was ended");
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
