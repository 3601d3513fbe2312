// The reference streamlet of ../REFERENCE.md in TypeScript, with the SDK of sdk/node. scripts/node makes typescript.mjs of it.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, writeSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { IntegerParameter, JsonInlet, JsonOutlet, serve, Streamlet, StringParameter, type Batch, type Emit, type FlowRecord, type Result } from "../../sdk/node/dist/index.js";

const text = (record: FlowRecord): string => record.text() ?? "";

const words: Record<string, (streamlet: Conformance, record: FlowRecord) => Result> = {
  echo: (s, record) => s.out.emit(record),
  fan: (s, record) => [s.out.emit(record), s.other.emit(record), s.out.emit(record)],
  skip: () => null,
  fail(_, record) {
    throw new Error(text(record));
  },
  exit: () => process.exit(3),
  multiply: (s, record) => s.out.emit(record, { value: String(Number(text(record)) * s.config.get(s.factor)) }),
  unkeyed: (s, record) => s.out.emit(record, { key: null }),
  "header-echo": (s, record) => s.out.emit(record, { headers: [...record.headers, ["echo", "1"]] }),
  make: (s, record) => s.out.emit({ key: record.key, value: Buffer.alloc(Number(text(record)), "x") }),
  "rogue-outlet": (_, record) => new JsonOutlet("nowhere", { schemaName: "conformance.v1" }).emit(record),
  async late(s, record) {
    while (!existsSync(text(record))) await sleep(10);
    return s.out.emit(record);
  },
  busy(s, record) {
    while (!existsSync(text(record)));
    return s.out.emit(record);
  },
  print(s, record) {
    console.log(text(record));
    return s.out.emit(record);
  },
  "print-fd"(s, record) {
    writeSync(1, Buffer.concat([record.value ?? Buffer.alloc(0), Buffer.from("\n")]));
    return s.out.emit(record);
  },
  "print-err"(s, record) {
    console.error(text(record));
    return s.out.emit(record);
  },
  async run(s, record) {
    await once(spawn("sh", ["-c", text(record)], { stdio: "inherit" }), "close");
    return s.out.emit(record);
  },
  read: (s, record) => s.out.emit(record, { value: readFileSync(0) }),
};

class Conformance extends Streamlet {
  readonly name = "conformance";
  readonly in = new JsonInlet("in", { schemaName: "conformance.v1" });
  readonly side = new JsonInlet("side", { schemaName: "conformance.v1" });
  readonly out = new JsonOutlet("out", { schemaName: "conformance.v1" });
  readonly other = new JsonOutlet("other", { schemaName: "conformance.v1" });
  readonly mode = new StringParameter("mode", { default: "key" });
  readonly factor = new IntegerParameter("factor", { default: 2 });

  override configure(): void {
    if (this.config.get(this.mode) === "broken") throw new Error("mode is broken");
  }

  // The whole batch, because between two calls of processRecord a batch that became void ends.
  override async *process(batch: Batch): AsyncGenerator<Emit> {
    for (const record of batch.records) {
      const emits = await this.#does(record);
      if (Array.isArray(emits)) yield* emits as Emit[];
      else if (emits) yield emits as Emit;
    }
  }

  #does(record: FlowRecord): Result {
    const mode = this.config.get(this.mode);
    const word = mode === "key" ? (record.key?.toString().split(":", 1)[0] ?? "") : mode;
    return (Object.hasOwn(words, word) ? words[word] : words["echo"])?.(this, record);
  }
}

if (process.env["CONFORMANCE_DISCOVERY"] === "error") throw new Error("no descriptor today");
serve(new Conformance());
