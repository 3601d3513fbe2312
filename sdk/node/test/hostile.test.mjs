// What a supervisor must not send: one line on stderr and exit code 1, whatever the process is doing.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, readdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, test } from "node:test";
import { decodeBody, encodeFrame, FrameCutter } from "../dist/frames.js";
import { JsonInlet, Streamlet } from "../dist/index.js";
import { Session } from "../dist/session.js";
import { ProtocolError } from "../dist/wellformed.js";
import { Process, record } from "./supervisor.mjs";

const bytes = (...parts) => Buffer.concat(parts.map((part) => (typeof part === "string" ? Buffer.from(part, "latin1") : Buffer.from(part))));
const framed = (body) => {
  const head = Buffer.alloc(4);
  head.writeUInt32BE(body.length);
  return Buffer.concat([head, body]);
};
const nested = (depth, head = 0x91, size = 1) => Buffer.concat([Buffer.alloc(depth * size, Buffer.from([head, 0xff, 0xff, 0xff, 0xff].slice(0, size))), Buffer.from([0xc0])]);

describe("bodies that are no value of the protocol", () => {
  const bodies = {
    "ends early": [bytes([0x92, 0xa1], "x"), /ends early/],
    "bytes behind the message": [bytes([0x91, 0xa1], "x", [0]), /1 bytes behind its message/],
    "no array": [bytes([0xa4], "ping"), /no message/],
    "an empty array": [bytes([0x90]), /no message/],
    "a kind that is no text": [bytes([0x91, 1]), /no message/],
    "a map": [bytes([0x81, 0xa1], "a", [1]), /no message/],
    "nested too deep": [bytes([0x92, 0xa1], "x", nested(64)), /nested deeper than 64/],
    "nested a million times": [bytes([0x92, 0xa1], "x", nested(1_000_000)), /nested deeper than 64/],
    "maps nested a million times": [bytes([0x92, 0xa1], "x", Buffer.alloc(3_000_000, bytes([0x81, 0xa1], "k"))), /nested deeper than 64/],
    "arrays that announce what never comes": [bytes([0x92, 0xa1], "x", nested(800_000, 0xdd, 5)), /ends early: 4294967295/],
    "a map that announces what never comes": [bytes([0x92, 0xa1], "x", [0xdf, 0xff, 0xff, 0xff, 0xff]), /ends early/],
    "bytes that never come": [bytes([0x92, 0xa1], "x", [0xc6, 0xff, 0xff, 0xff, 0xff]), /ends early/],
    "text that never comes": [bytes([0x92, 0xa1], "x", [0xdb, 0x7f, 0xff, 0xff, 0xff]), /ends early/],
    "2^53": [bytes([0x92, 0xa1], "x", [0xcf, 0, 0x20, 0, 0, 0, 0, 0, 0]), /the integer 9007199254740992;/],
    "2^64 - 1": [bytes([0x92, 0xa1], "x", [0xcf, 255, 255, 255, 255, 255, 255, 255, 255]), /the integer 18446744073709551615;/],
    "-2^53": [bytes([0x92, 0xa1], "x", [0xd3, 0xff, 0xe0, 0, 0, 0, 0, 0, 0]), /the integer -9007199254740992;/],
    "a timestamp extension": [bytes([0x92, 0xa1], "x", [0xd6, 0xff, 0, 0, 0, 0]), /0xd6.*extension/],
    "an extension of any length": [bytes([0x92, 0xa1], "x", [0xc7, 1, 5, 0]), /0xc7/],
    "a byte that begins nothing": [bytes([0x91, 0xc1]), /0xc1/],
    "a map's key that is a number": [bytes([0x92, 0xa1], "x", [0x81, 1, 1]), /key that is no text/],
    "a map's key that is a map": [bytes([0x92, 0xa1], "x", [0x81, 0x80, 1]), /key that is no text/],
    "the second key": [bytes([0x92, 0xa1], "x", [0x82, 0xa1], "a", [0x90, 0xc4, 0, 0]), /key that is no text/],
    "a key that changes objects": [bytes([0x92, 0xa1], "x", [0x81, 0xa9], "__proto__", [1]), /cannot be decoded/],
  };
  for (const [name, [body, says]] of Object.entries(bodies)) {
    test(name, () => assert.throws(() => decodeBody(body), (error) => error instanceof ProtocolError && says.test(error.message)));
  }

  test("every truncation of every golden frame", () => {
    const golden = new URL("../../../wire/testdata/golden/", import.meta.url);
    for (const file of readdirSync(golden).filter((name) => name.endsWith(".json"))) {
      const body = Buffer.from(JSON.parse(readFileSync(new URL(file, golden), "utf8")).hex, "hex").subarray(4);
      for (let end = 0; end < Math.min(body.length, 2_000); end++) assert.throws(() => decodeBody(body.subarray(0, end)), ProtocolError, `${file} to ${end}`);
    }
  });

  test("what is at a limit is read", () => {
    assert.deepEqual(decodeBody(bytes([0x93, 0xa1], "x", [0xcf, 0, 0x1f, 255, 255, 255, 255, 255, 255], [0xd3, 0xff, 0xe0, 0, 0, 0, 0, 0, 1])).slice(1), [2 ** 53 - 1, 1 - 2 ** 53]);
    assert.equal(decodeBody(bytes([0x92, 0xa1], "x", nested(63))).length, 2);
  });

  test("lengths of frames that may not be", () => {
    for (const size of [0, 4_194_305, 0xffffffff]) {
      const head = Buffer.alloc(4);
      head.writeUInt32BE(size);
      assert.throws(() => new FrameCutter().push(head, () => {}), ProtocolError);
    }
  });
});

class Quiet extends Streamlet {
  name = "quiet";
  in = new JsonInlet("in", { schemaName: "any.v1" });
  processRecord() {}
}

describe("messages that are wrong", () => {
  const start = ["start", { conversation: 1, config: {}, inlets: {} }];
  const batch = (...changes) => Object.assign(["batch", 1, "in", 0, [record(0, "x")], { attempt: 1 }], ...changes);
  const row = (...changes) => batch({ 4: [Object.assign(record(0, "x"), ...changes)] });
  const running = [["discover", {}], start];
  const wrong = {
    "batch first": [[batch()], /batch in the state new/],
    "start first": [[start], /start in the state new/],
    "stop first": [[["stop", { mode: "finish" }]], /stop in the state new/],
    "revoke first": [[["revoke", 1]], /revoke before discover/],
    "discover twice": [[["discover", {}], ["discover", {}]], /discover in the state ready/],
    "start twice": [[...running, start], /start in the state running/],
    "batch before start": [[["discover", {}], batch()], /batch in the state ready/],
    "batch while finishing": [[...running, ["stop", { mode: "finish" }], batch()], /batch in the state stopped/],
    "discover with an array": [[["discover", []]], /its map is an array/],
    "discover with a limit that is none": [[["discover", { max_frame_bytes: "x" }]], /max_frame_bytes is "x"/],
    "start with text": [[["discover", {}], ["start", "x"]], /its map is "x", not a map/],
    "start with topics that are none": [[["discover", {}], ["start", { inlets: { in: 5 } }]], /inlets.in is 5, not text/],
    "batch without anything": [[...running, ["batch"]], /id is missing/],
    "a negative id": [[...running, batch({ 1: -1 })], /id is -1/],
    "an id that is half a number": [[...running, batch({ 1: 1.5 })], /id is 1.5/],
    "an id that came before": [[...running, batch(), batch()], /batch 1 after batch 1: ids rise/],
    "an inlet of bytes": [[...running, batch({ 2: new Uint8Array(1) })], /inlet is bytes/],
    "records that are nil": [[...running, batch({ 4: null })], /records is nil/],
    "no records": [[...running, batch({ 4: [] })], /records is empty/],
    "a record that is a number": [[...running, batch({ 4: [5] })], /a record that is not/],
    "a record that is short": [[...running, batch({ 4: [[0, 0, null, null]] })], /a record that is not/],
    "a value of text": [[...running, row({ 3: "text" })], /a record that is not/],
    "a key that is a number": [[...running, row({ 2: 5 })], /a record that is not/],
    "an offset of text": [[...running, row({ 0: "0" })], /a record that is not/],
    "headers that are nil": [[...running, row({ 4: null })], /a record that is not/],
    "a header's name that is nil": [[...running, row({ 4: [[null, null]] })], /a record that is not/],
    "a header's value of text": [[...running, row({ 4: [[new Uint8Array(1), "x"]] })], /a record that is not/],
    "an attempt of text": [[...running, batch({ 5: { attempt: "1" } })], /attempt is "1"/],
    "revoke of nothing": [[...running, ["revoke"]], /id is missing/],
    "ping of text": [[...running, ["ping", "x"]], /n is "x"/],
    "stop in another mode": [[...running, ["stop", { mode: "later" }]], /mode is "later"/],
    "stop without a mode": [[...running, ["stop"]], /mode is missing/],
    "refuse with text": [[["refuse", "x"]], /problems is "x"/],
  };
  for (const [name, [messages, says]] of Object.entries(wrong)) {
    test(name, () => {
      const session = new Session(new Quiet(), { send() {}, refused() {}, broken() {}, pings: true, maxInFlight: 1 });
      const last = messages.at(-1);
      for (const message of messages.slice(0, -1)) session.receive(message);
      assert.throws(() => session.receive(last), (error) => error instanceof ProtocolError && says.test(error.message));
    });
  }
});

describe("a process says what is wrong and exits with 1", () => {
  const endings = {
    "a length that may not be": [Buffer.from([0xff, 0xff, 0xff, 0xff]), /a frame of 4294967295 bytes/],
    "an empty frame": [Buffer.alloc(4), /a frame of 0 bytes/],
    "text": [Buffer.from("{\"kind\": \"batch\"}\n"), /a frame of \d+ bytes/],
    "no msgpack": [framed(Buffer.from([0xc1])), /0xc1/],
    "a large frame that is no msgpack": [framed(Buffer.alloc(0x400000, 0x91)), /nested deeper/],
    "a ping of text": [encodeFrame(["ping", "x"]), /ping: n is "x"/],
    "a message out of its place": [encodeFrame(["discover", {}]), /discover in the state running/],
    "an integer beyond 2^53": [framed(bytes([0x92, 0xa1], "x", [0xcf, 0, 0x20, 0, 0, 0, 0, 0, 0])), /the integer 9007199254740992/],
  };
  for (const [name, [sent, says]] of Object.entries(endings)) {
    test(name, async () => {
      const p = new Process("commands.mjs");
      await p.start();
      p.write(sent);
      assert.equal(await p.exit(), 1);
      const said = p.stderr.split("\n").filter((line) => line.startsWith("ankka-flow: "));
      assert.equal(said.length, 1, p.stderr);
      assert.match(said[0], /^ankka-flow: the supervisor broke the protocol: /);
      assert.match(said[0], says);
      assert.ok(said[0].length < 300);
    });
  }

  test("an input that ends within a frame", async () => {
    const p = new Process("commands.mjs");
    await p.start();
    p.write(Buffer.from([0, 0, 0, 9, 0x92]));
    assert.equal(await p.end(), 1);
    assert.match(p.stderr, /the input ended 5 bytes into a frame/);
  });

  test("while a handler computes and never ends", async () => {
    const p = new Process("commands.mjs");
    await p.start();
    p.batch(1, [record(0, `busy ${join(mkdtempSync(join(tmpdir(), "ankka-flow-")), "never")}`)]);
    await p.message("status", 1);
    p.write(Buffer.alloc(4));
    assert.notEqual(await p.exit(), 0);
    assert.match(p.stderr, /the supervisor broke the protocol: a frame of 0 bytes/);
  });
});

test("unknown keys, elements and kinds are ignored", async () => {
  const p = new Process("commands.mjs");
  p.send(["discover", { protocol: "1.9", later: [1, [2, { x: null }]] }, "more", 5]);
  await p.message("spec");
  p.send(["later", 1], ["start", { conversation: 1, config: {}, inlets: { in: "t" }, later: { deep: [[[]]] } }, "more"]);
  p.send(["batch", 1, "in", 0, [[...record(0, "forward"), "more", 5]], { attempt: 1, later: true }, "more"], ["revoke", 77, "more"], ["ping", 3, "more"]);
  await p.message("ack", 1);
  await p.message("pong", 3);
  await p.stderrHas('ignored a message of the unknown kind "later"');
  assert.equal(await p.end(), 0);
});
