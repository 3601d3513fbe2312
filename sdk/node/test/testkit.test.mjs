// The harness, parameters, and the page that shows them.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { BooleanParameter, DurationParameter, IntegerParameter, JsonInlet, JsonOutlet, MemorySizeParameter, Streamlet, StringParameter } from "../dist/index.js";
import { Harness } from "../dist/testkit.js";

class Router extends Streamlet {
  name = "router";
  inlet = new JsonInlet("in", { schemaName: "cart.v1" });
  valid = new JsonOutlet("valid", { schemaName: "cart.v1" });
  limit = new IntegerParameter("limit", { default: 5 });

  *processRecord(record) {
    if (record.json().total > this.config.get(this.limit)) yield this.valid.emit(record, { headers: [...record.headers, ["seen", null]] });
  }
}

test("what was written, skipped and failed; a failed batch stays and blocks its partition", async () => {
  const h = new Harness(new Router(), { config: { limit: "6" } });
  h.inlet("in").put({ key: "c1", value: '{"total": 7}', headers: [["a", ""]] });
  h.inlet("in").put({ key: "c1", value: '{"total": 6}' });
  await h.run({ maxRecords: 1 });
  assert.deepEqual(h.failures, []);
  assert.equal(h.skipped, 1);
  assert.equal(h.batches, 2);
  const [only, ...rest] = h.outlet("valid").records;
  assert.deepEqual(rest, []);
  assert.equal(`${only.key} ${only.value}`, 'c1 {"total": 7}');
  assert.deepEqual(only.headers.map(([name, value]) => [String(name), value && String(value)]), [["a", ""], ["seen", null]]);

  h.inlet("in").put({ value: "no json", partition: 2 });
  h.inlet("in").put({ value: '{"total": 8}', partition: 2 });
  await h.run({ maxRecords: 1 });
  assert.equal(h.failures.length, 1);
  assert.equal(h.failures[0].kind, "SyntaxError");
  assert.equal(h.failures[0].offset, 0);
  await h.run();
  assert.equal(h.failures.length, 2);
  assert.equal(h.outlet("valid").records.length, 1);
});

test("an emit of the record as it came sends what arrived; null and empty stay apart", async () => {
  class Pass extends Router {
    *processRecord(record) {
      yield this.valid.emit(record);
      yield this.valid.emit(record, { timestampMs: 0 });
      yield this.valid.emit(record, { value: null });
      yield this.valid.emit({ value: "", key: new Uint8Array(), headers: [[Buffer.from([0xff]), ""]], timestampMs: -1 });
      yield this.valid.tombstone("k");
      yield this.valid.emit(record, { json: { a: [1] } });
    }
  }
  const h = new Harness(new Pass());
  h.inlet("in").put({ value: "v" });
  await h.run();
  const text = (bytes) => bytes && bytes.toString("latin1");
  assert.deepEqual(h.outlet("valid").records.map((r) => [text(r.key), text(r.value), r.headers.map(([n, v]) => [text(n), text(v)]), r.timestampMs]), [
    [null, "v", [], null],
    [null, "v", [], 0],
    [null, null, [], null],
    ["", "", [["\xff", ""]], -1],
    ["k", null, [], null],
    [null, '{"a":[1]}', [], null],
  ]);
});

test("the texts of parameters", () => {
  const duration = new DurationParameter("d");
  for (const [text, ms] of [["500ms", 500], ["5 seconds", 5_000], ["1.5m", 90_000], ["7", 7], ["1 day", 86_400_000], ["250us", 0.25], [" 2 millis ", 2], ["-1e1s", -10_000]]) assert.equal(duration.parse(text), ms, text);
  const size = new MemorySizeParameter("s");
  for (const [text, bytes] of [["64KiB", 65_536], ["1 MiB", 1_048_576], ["10MB", 10_000_000], ["3k", 3_072], ["2Ki", 2_048], ["1 kB", 1_000], ["1 kilobytes", 1_000], ["1 gibibytes", 2 ** 30], ["9", 9], ["1.9", 1], ["2m", 2_097_152], ["7 bytes", 7]]) assert.equal(size.parse(text), bytes, text);
  const integer = new IntegerParameter("i");
  assert.equal(integer.parse("9007199254740991"), Number.MAX_SAFE_INTEGER);
  for (const bad of ["9007199254740992", "1.0", "1e3", "", "x"]) assert.throws(() => integer.parse(bad), /parameter i/, bad);
  for (const bad of ["5 parsecs", "s", "--1", "5 ss", "5 S"]) assert.throws(() => duration.parse(bad), TypeError, bad);
  for (const bad of ["5 KX", "-1", "1 kilo", "1KB", "1mB", "1ki"]) assert.throws(() => size.parse(bad), TypeError, bad);
  assert.throws(() => new BooleanParameter("b", { default: "yes" }), /true or false/);
  assert.throws(() => new StringParameter("t", { default: "" }), /leave it out/);
});

test("the page's examples run", async () => {
  const page = readFileSync(new URL("../README.md", import.meta.url), "utf8");
  const [example, harness] = [...page.matchAll(/```js\n([^]*?)```/g)].map((match) => match[1]);
  const code = (example + harness)
    .replaceAll('"ankka-flow"', JSON.stringify(new URL("../dist/index.js", import.meta.url).href))
    .replaceAll('"ankka-flow/testkit"', JSON.stringify(new URL("../dist/testkit.js", import.meta.url).href))
    .replace(/^serve\(.*$/m, "");
  await import(`data:text/javascript,${encodeURIComponent(code)}`);
});
