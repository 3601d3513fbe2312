/** What a user writes. */
import type { Labels } from "./batchrun.js";
import type { Context } from "./context.js";
import { Config, Parameter, type ConfigValue } from "./parameters.js";
import { JsonInlet, JsonOutlet, type Emit } from "./ports.js";
import type { Batch, FlowRecord } from "./records.js";

/** What a handler gives back: an emit, several (a generator too), or nothing; each also as a promise. */
export type Emits = Emit | Iterable<Emit> | AsyncIterable<Emit> | null | undefined | void;
export type Result = Emits | Promise<Emits>;

export type LogLevel = "debug" | "info" | "warn" | "error";
export type Fields = Readonly<Record<string, string | number | boolean>>;

/** Where a streamlet's logs and numbers go. */
export interface StreamletLink {
  log(level: LogLevel, message: string, fields: Fields | null): void;
  counter(name: string, increment: number, labels: Labels | null): void;
  gauge(name: string, value: number, labels: Labels | null): void;
}

/**
 * A streamlet: its ports and parameters are its fields, its handler is `processRecord` or `process`. Returning
 * acknowledges the batch, throwing fails it and it comes again; a record for which nothing is emitted is skipped for
 * good. Batches of different partitions are handled at the same time, those of one partition never are.
 */
export abstract class Streamlet {
  /** `[a-z0-9-]{1,63}`, no hyphen at an end. */
  abstract readonly name: string;
  readonly description: string = "";

  #config: Config | null = null;
  #link: StreamletLink | null = null;

  /** The parameters' values; set before the first record comes. */
  get config(): Config {
    if (this.#config === null) throw new Error("the configuration comes with the first conversation: read it in configure or in a handler");
    return this.#config;
  }

  /** Handles one record. The records of a batch are handled in order, each when the one before it is done. */
  processRecord?(record: FlowRecord, context: Context): Result;

  /** Handles a whole batch, instead of `processRecord`. */
  process?(batch: Batch, context: Context): Result;

  /** Called at the start of every conversation, when `config` is set; the records wait for it. Throwing ends the process. */
  configure?(): void | Promise<void>;

  /** Called before the process exits, when its supervisor has ended it; it has 5 s. */
  close?(): void | Promise<void>;

  /** Writes a structured record to the supervisor's log. console.log works as well; its lines have no level and no fields. */
  log(level: LogLevel, message: string, fields: Fields | null = null): void {
    this.#link?.log(level, message, fields);
  }

  /** Adds to a counter of /metrics, at once. A context's counter counts when its batch commits. */
  counter(name: string, increment = 1, labels: Labels | null = null): void {
    this.#link?.counter(name, increment, labels);
  }

  /** Sets a gauge of /metrics, at once. */
  gauge(name: string, value: number, labels: Labels | null = null): void {
    this.#link?.gauge(name, value, labels);
  }

  /** Says where logs and numbers go. For the SDK. */
  static connect(streamlet: Streamlet, link: StreamletLink): void {
    streamlet.#link = link;
  }

  /** Sets the values of a conversation. For the SDK; a test uses the harness. */
  static configure(streamlet: Streamlet, config: Config): void {
    streamlet.#config = config;
  }
}

/** A streamlet's declaration, read from its fields. */
export interface Declaration {
  readonly name: string;
  readonly description: string;
  readonly inlets: readonly JsonInlet[];
  readonly outlets: readonly JsonOutlet[];
  readonly parameters: readonly Parameter<ConfigValue>[];
}

/** Reads a streamlet's fields. Throws TypeError that says everything that is wrong with it. */
export function declarationOf(streamlet: Streamlet): Declaration {
  const fields: unknown[] = Object.values(streamlet);
  const declaration: Declaration = {
    name: streamlet.name,
    description: streamlet.description,
    inlets: fields.filter((field) => field instanceof JsonInlet),
    outlets: fields.filter((field) => field instanceof JsonOutlet),
    parameters: fields.filter((field) => field instanceof Parameter),
  };
  const problems = problemsOf(streamlet, declaration);
  if (problems.length > 0) throw new TypeError(`${streamlet.constructor.name}: ${problems.join("; ")}`);
  return declaration;
}

function problemsOf(streamlet: Streamlet, { name, inlets, outlets, parameters }: Declaration): string[] {
  const problems: string[] = [];
  if (typeof name !== "string" || !/^(?!-)[a-z0-9-]{1,63}(?<!-)$/.test(name)) {
    problems.push(`the name ${JSON.stringify(name)} must match [a-z0-9-]{1,63}, without a hyphen at an end`);
  }
  const ports = [...inlets, ...outlets].map((port) => port.name);
  if (ports.length === 0) problems.push("it has no inlet and no outlet: make them fields, as in inlet = new JsonInlet(...)");
  for (const twice of repeated(ports)) problems.push(`two ports are named ${twice}`);
  for (const twice of repeated(parameters.map((parameter) => parameter.key))) problems.push(`two parameters have the key ${twice}`);
  const handlers = [streamlet.process, streamlet.processRecord].filter((handler) => typeof handler === "function").length;
  if (handlers !== 1 && inlets.length > 0) problems.push(`it must have one of processRecord and process, and has ${handlers === 0 ? "neither" : "both"}`);
  return problems;
}

function repeated(names: readonly string[]): string[] {
  return [...new Set(names.filter((name, at) => names.indexOf(name) !== at))];
}
