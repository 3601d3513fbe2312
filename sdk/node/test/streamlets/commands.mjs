// Does what the value of each record says.
import { execSync, spawnSync } from "node:child_process";
import { existsSync, readFileSync, writeSync } from "node:fs";
import { JsonInlet, JsonOutlet, Streamlet, serve } from "../../dist/index.js";

const never = () => new Promise(() => {});
const commands = {
  echo: (s, r) => s.out.emit(r, { key: "echoed" }),
  forward: (s, r) => s.out.emit(r),
  skip: () => null,
  print(s) {
    console.log("from console.log");
    process.stdout.write("from process.stdout\n");
    writeSync(1, "from descriptor 1\n");
    spawnSync("echo", ["from a child"], { stdio: "inherit" });
    execSync("echo from a shell", { stdio: ["inherit", "inherit", "inherit"] });
    return s.out.emit({ value: "printed" });
  },
  stdin(s) {
    const { stdout } = spawnSync("cat", { stdio: ["inherit", "pipe", "inherit"] });
    return s.out.emit({ value: stdout });
  },
  environment: (s) => s.out.emit({ value: Object.keys(process.env).filter((name) => name.startsWith("ANKKA_FLOW")).join() }),
  descriptors: (s) => s.out.emit({ value: spawnSync("sh", ["-c", "ls -l /proc/$$/fd"], { stdio: ["inherit", "pipe", "inherit"] }).stdout }),
  parent: (s) => s.out.emit({ value: readFileSync(`/proc/${process.ppid}/cmdline`, "utf8").split("\0")[0] }),
  busy(s, r, context, until) {
    context.status({});
    while (!existsSync(until));
    return s.out.emit({ value: "done" });
  },
  never,
  async aborted(s, r, { signal }) {
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
    return s.out.emit({ value: "too late" });
  },
  exit(s) {
    process.exit(3);
  },
  async *megabyteThenExit(s) {
    for (let i = 0; i < 2_048; i++) yield s.out.emit({ value: Buffer.alloc(1_024, i) });
    process.exit(3);
  },
  *emitMuch(s) {
    for (let i = 0; i < 32; i++) yield s.out.emit({ value: Buffer.alloc(1_048_576, i) });
  },
  throw() {
    throw new RangeError("no total", { cause: new Error("the cause") });
  },
  throwNothing() {
    throw undefined;
  },
  float(s) {
    Promise.reject(new Error("floating"));
    return s.out.emit({ value: "lost" });
  },
  async floatLate(s) {
    setTimeout(() => Promise.reject(new Error("floating late")), 1);
    await new Promise((resolve) => setTimeout(resolve, 100));
    return s.out.emit({ value: "lost" });
  },
  async uncaught() {
    setTimeout(() => {
      throw new Error("from a timer");
    }, 1);
    await never();
  },
  large: (s, r, c, size) => s.out.emit({ value: Buffer.alloc(Number(size)) }),
  lostEmit(s, r) {
    s.out.emit(r);
  },
  report(s, r, context) {
    context.counter("carts", 2, { kind: "large" });
    context.gauge("queue", -1.5);
    context.status({ attempt: 2, waiting: true, nextAttemptMs: 5, error: "why" });
    s.log("warn", "said", { n: 1 });
    s.counter("now");
  },
};

class Commands extends Streamlet {
  name = "commands";
  in = new JsonInlet("in", { schemaName: "any.v1" });
  out = new JsonOutlet("out", { schemaName: "any.v1" });

  processRecord(record, context) {
    const [command, argument] = record.text().split(" ");
    return commands[command](this, record, context, argument);
  }
}

console.log("printed at the start");
serve(new Commands());
