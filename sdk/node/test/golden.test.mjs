// The golden frames and descriptors, which are part of the protocol's page.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { describe, test } from "node:test";
import { canonicalJson, descriptorOf } from "../dist/descriptor.js";
import { EmitBuffer } from "../dist/emitbuffer.js";
import { decodeBody, encodeFrame, FrameCutter, MAX_FRAME_BYTES, MAX_RECORD_BYTES } from "../dist/frames.js";
import {
  BooleanParameter, DoubleParameter, DurationParameter, IntegerParameter, JsonInlet, JsonOutlet, MemorySizeParameter, StringParameter,
} from "../dist/index.js";

const testdata = new URL("../../../wire/testdata/", import.meta.url);
const golden = readdirSync(new URL("golden/", testdata)).filter((name) => name.endsWith(".json"))
  .map((file) => ({ file, ...JSON.parse(readFileSync(new URL(`golden/${file}`, testdata), "utf8"), revive) }));

function revive(_, value) {
  const isBin = typeof value === "object" && value !== null && Object.keys(value).join() === "hex";
  return isBin ? new Uint8Array(Buffer.from(value.hex, "hex")) : value;
}

// Bytes are compared as bytes, whichever class holds them.
function plain(value) {
  if (value instanceof Uint8Array) return { hex: Buffer.from(value).toString("hex") };
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value === "object" && value !== null) return Object.fromEntries(Object.entries(value).map(([key, field]) => [key, plain(field)]));
  return value;
}

const limits = { maxFrameBytes: MAX_FRAME_BYTES, maxRecordBytes: MAX_RECORD_BYTES };

test("there are golden frames", () => assert.ok(golden.length >= 49));

describe("every golden frame is read", () => {
  for (const { file, hex, value } of golden) {
    test(file, () => {
      const bytes = Buffer.from(hex, "hex");
      assert.deepEqual(plain(decodeBody(bytes.subarray(4))), plain(value));
      const bodies = [];
      const cutter = new FrameCutter();
      for (const byte of bytes) cutter.push(Uint8Array.of(byte), (body) => bodies.push(body));
      assert.deepEqual(bodies.map((body) => Buffer.from(body)), [bytes.subarray(4)]);
    });
  }
});

describe("what is written is what a compact encoder writes", () => {
  // JavaScript has one kind of number: 2.0 is written as the int 2, which the protocol takes as well.
  for (const { file, exact, hex, value } of golden) {
    if (!exact || /report/.test(file)) continue;
    test(file, () => assert.equal(Buffer.from(encodeFrame(value)).toString("hex"), hex));
  }
});

describe("emits are those of the golden frames", () => {
  for (const { file, value } of golden) {
    if (value[0] !== "emit" || /later_minor|none|missing|short/.test(file)) continue;
    test(file, () => {
      const frames = [];
      const [, id, outlet, records] = value;
      const buffer = new EmitBuffer(id, outlet, limits, (frame) => frames.push(frame));
      for (const [key, content, headers, timestampMs] of records) {
        buffer.add({ record: null, changes: { key, value: content, headers: headers ?? [], ...(timestampMs === null ? {} : { timestampMs }) } }, () => false);
      }
      buffer.flush();
      assert.deepEqual(frames.map((frame) => plain(decodeBody(frame.subarray(4)))), [plain(value)]);
    });
  }
});

test("emits are split so that no frame is over the limit, and none is lost", () => {
  const frames = [];
  const buffer = new EmitBuffer(9, "out", limits, (frame) => frames.push(frame));
  const sizes = [MAX_RECORD_BYTES - 100, 10, MAX_RECORD_BYTES - 100, 1_000_000, 100, MAX_RECORD_BYTES - 100];
  for (const size of sizes) buffer.add({ record: null, changes: { value: Buffer.alloc(size) } }, () => false);
  buffer.flush();
  for (const frame of frames) {
    assert.equal(Buffer.from(frame).readUInt32BE(0), frame.length - 4);
    assert.ok(frame.length - 4 <= MAX_FRAME_BYTES);
  }
  assert.deepEqual(frames.flatMap((frame) => decodeBody(frame.subarray(4))[3]).map(([, value]) => value.length), sizes);
});

test("a length of 0, or over the limit, is refused before anything is allocated for it", () => {
  const push = (...bytes) => new FrameCutter().push(Uint8Array.from(bytes), () => {});
  push(0x00, 0x40, 0x00, 0x00); // 4,194,304
  assert.throws(() => push(0x00, 0x40, 0x00, 0x01), /4194305 bytes/);
  assert.throws(() => push(0xff, 0xff, 0xff, 0xff), /4294967295 bytes/);
  assert.throws(() => push(0, 0, 0, 0), /0 bytes/);
});

test("the descriptor is the canonical one", () => {
  const inlets = [];
  const outlets = [new JsonOutlet("out", { schemaName: "any.v1" })];
  const parameters = [
    new DurationParameter("wait", { default: "5 seconds" }),
    new IntegerParameter("count", { default: -3 }),
    new BooleanParameter("eager", { default: false }),
    new StringParameter("text", { default: "hello" }),
    new DoubleParameter("ratio", { default: 0.5 }),
    new StringParameter("required"),
    new MemorySizeParameter("size", { default: "64KiB", description: "how much" }),
  ];
  const text = readFileSync(new URL("descriptors/every-type.json", testdata), "utf8");
  const { description } = JSON.parse(text).streamlet;
  const made = { ...descriptorOf({ name: "every-type", description, inlets, outlets, parameters }), sdk: { name: "fixture", version: "0.0.0" } };
  assert.equal(canonicalJson(made), text);
});

describe("every example of a descriptor is written canonically", () => {
  for (const name of readdirSync(new URL("descriptors/", testdata))) {
    test(name, () => {
      const text = readFileSync(new URL(`descriptors/${name}`, testdata), "utf8");
      assert.equal(canonicalJson(JSON.parse(text)), text);
    });
  }
});

test("a port's fingerprint", () => {
  assert.equal(new JsonInlet("in", { schemaName: "cart-events.v1" }).fingerprint, "nXhoFwNZSB7DKScFuZUtZ1gnAYkIxadumsXNHWwbLfM=");
});
