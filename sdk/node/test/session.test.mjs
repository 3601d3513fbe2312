// Who may send what when: the session without pipes.
import assert from "node:assert/strict";
import { test } from "node:test";
import { decodeBody, FrameCutter } from "../dist/frames.js";
import { JsonInlet, JsonOutlet, Streamlet } from "../dist/index.js";
import { Session } from "../dist/session.js";
import { record } from "./supervisor.mjs";

class Manual extends Streamlet {
  name = "manual";
  in = new JsonInlet("in", { schemaName: "any.v1" });
  out = new JsonOutlet("out", { schemaName: "any.v1" });
  handlers = new Map();

  processRecord(record) {
    return new Promise((resolve, reject) => {
      this.handlers.set(record.text(), { emit: () => resolve(this.out.emit(record)), done: () => resolve(null), throw: reject });
    });
  }
}

class Conversation {
  sent = [];
  streamlet;
  session;
  #cutter = new FrameCutter();
  #wanted = null;

  constructor(streamlet = new Manual()) {
    this.streamlet = streamlet;
    this.session = new Session(streamlet, {
      send: (frames) => this.#cutter.push(frames, (body) => this.#take(decodeBody(body))),
      refused: (problems) => this.sent.push(["refused", problems]),
      broken: (reason) => this.sent.push(["broken", reason]),
      pings: true,
      maxInFlight: 2,
    });
  }

  #take(message) {
    this.sent.push(message);
    this.#wanted?.();
  }

  discover() {
    this.session.receive(["discover", { protocol: "1.0", supervisor: "test" }]);
  }
  start(conversation = 1) {
    this.session.receive(["start", { conversation, instance: 0, config: {}, errors: {}, inlets: { in: "t" }, outlets: { out: "o" } }]);
  }
  async batch(id, text, partition = 0, more = []) {
    this.session.receive(["batch", id, "in", partition, [text, ...more].map((value, at) => record(id + at, value)), { attempt: 1 }]);
    await new Promise(setImmediate); // its handler has begun
    return this.streamlet.handlers.get(text);
  }
  stop(mode) {
    this.session.receive(["stop", { mode, reason: "test" }]);
  }
  async until(kind, id) {
    while (!this.sent.some((m) => m[0] === kind && m[1] === id)) await new Promise((resolve) => (this.#wanted = resolve));
  }
  get kinds() {
    return this.sent.map((m) => (m[0] === "ack" || m[0] === "fail" ? `${m[0]} ${m[1]}` : m[0]));
  }
}

test("abandon: stopped at once, the late answer in the next conversation, its emits not", async () => {
  const c = new Conversation();
  c.discover();
  c.start();
  const old = await c.batch(1, "old");
  c.stop("abandon");
  assert.deepEqual(c.kinds, ["spec", "stopped"]);
  c.discover();
  c.start(2);
  const other = await c.batch(2, "new", 1);
  old.emit();
  await c.until("ack", 1);
  other.emit();
  await c.until("ack", 2);
  assert.deepEqual(c.kinds, ["spec", "stopped", "spec", "ack 1", "forward", "ack 2"]);
  assert.equal(c.session.owed, 0);
});

test("finish: stopped follows the last answer, and a void batch is not waited for", async () => {
  const c = new Conversation();
  c.discover();
  c.start();
  const revoked = await c.batch(1, "revoked");
  const live = await c.batch(2, "live", 1);
  c.session.receive(["revoke", 1]);
  c.stop("finish");
  assert.deepEqual(c.kinds, ["spec"]);
  live.emit();
  await c.until("stopped");
  assert.deepEqual(c.kinds, ["spec", "forward", "ack 2", "stopped"]);
  revoked.throw(new Error("aborted"));
  await c.until("fail", 1);
});

test("abandon while finishing, and a stop when stopped", async () => {
  const c = new Conversation();
  c.discover();
  c.start();
  await c.batch(1, "long");
  c.stop("finish");
  c.stop("abandon");
  c.stop("abandon");
  c.stop("finish");
  assert.deepEqual(c.kinds, ["spec", "stopped"]);
});

test("revoke: one answer without emits; one for an unknown or an answered id is ignored", async () => {
  const c = new Conversation();
  c.discover();
  c.start();
  const revoked = await c.batch(1, "revoked");
  c.session.receive(["revoke", 1]);
  c.session.receive(["revoke", 77]);
  revoked.emit();
  await c.until("ack", 1);
  c.session.receive(["revoke", 1]);
  assert.deepEqual(c.kinds, ["spec", "ack 1"]);
});

test("what was emitted before its batch became void is not sent", async () => {
  const c = new Conversation();
  c.discover();
  c.start();
  const first = await c.batch(1, "first", 0, ["second"]);
  first.emit();
  while (!c.streamlet.handlers.has("second")) await new Promise(setImmediate);
  c.stop("abandon");
  c.streamlet.handlers.get("second").emit();
  await c.until("ack", 1);
  assert.deepEqual(c.kinds, ["spec", "stopped", "ack 1"]);
});

test("what a later version adds is ignored", () => {
  const c = new Conversation();
  c.session.receive(["discover", { protocol: "1.7", later: [1, {}] }, null]);
  c.start();
  c.session.receive(["revoke", 5, "later"]);
  c.session.receive(["ping", 3, "later"]);
  assert.deepEqual(c.sent.slice(1), [["pong", 3]]);
});

test("logs and numbers from before the discovery come behind spec", () => {
  const c = new Conversation();
  c.streamlet.log("info", "early", { n: 1 });
  c.streamlet.gauge("early", 2);
  assert.deepEqual(c.sent, []);
  c.discover();
  assert.deepEqual(c.kinds, ["spec", "log", "report"]);
});

test("records wait for configure; one that throws breaks the process", async () => {
  class Configured extends Manual {
    async configure() {
      await new Promise(setImmediate);
      throw new Error("no database");
    }
  }
  const c = new Conversation(new Configured());
  c.discover();
  c.start();
  await new Promise(setImmediate);
  await new Promise(setImmediate);
  assert.equal(c.sent.at(-1)[0], "broken");
});

test("more series than a report may have are split", async () => {
  class Counting extends Manual {
    processRecord(_, context) {
      for (let n = 0; n < 1_001; n++) context.counter(`c${n}`);
    }
  }
  const c = new Conversation(new Counting());
  c.discover();
  c.start();
  await c.batch(1, "x");
  await c.until("ack", 1);
  assert.deepEqual(c.sent.filter(([kind]) => kind === "report").map(([, , series]) => series.length), [1_000, 1]);
});

test("a streamlet that is wrong is refused with everything that is wrong with it", () => {
  class Wrong extends Streamlet {
    name = "-wrong";
    a = new JsonInlet("same", { schemaName: "a" });
    b = new JsonOutlet("same", { schemaName: "a" });
  }
  assert.throws(() => new Conversation(new Wrong()), /"-wrong" must match[^]*two ports are named same[^]*has neither/);
});
