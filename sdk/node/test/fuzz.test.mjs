// Whatever comes from the pipe is a message or an Error; mutants of the golden frames, by seeds that are named here.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";
import { decodeBody, FrameCutter, MAX_FRAME_BYTES } from "../dist/frames.js";

const folder = new URL("../../../wire/testdata/golden/", import.meta.url);
const frames = readdirSync(folder).filter((name) => name.endsWith(".json"))
  .map((file) => Buffer.from(JSON.parse(readFileSync(new URL(file, folder), "utf8")).hex, "hex"));
const heads = [0x00, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xff, ...Array.from({ length: 33 }, (_, i) => 0xc0 + i)];

/** Numbers below n, the same for the same seed (mulberry32). */
function chances(seed) {
  return (n) => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % n;
  };
}

function mutant(chance, body) {
  const made = [...body];
  for (let n = 1 + chance(4); n > 0; n--) {
    const at = chance(made.length + 1);
    switch (chance(5)) {
      case 0: made[at] = chance(256); break;
      case 1: made[at] = heads[chance(heads.length)]; break;
      case 2: made.splice(at, 0, ...Array.from({ length: 1 + chance(9) }, () => heads[chance(heads.length)])); break;
      case 3: made.splice(at, 1 + chance(9)); break;
      default: made.splice(at);
    }
  }
  return Uint8Array.from(made);
}

const seeds = Number(process.env.FUZZ_SEEDS ?? 4);

for (let seed = 0; seed < seeds; seed++) {
  test(`a body is a message or an Error, seed ${seed}`, () => {
    const chance = chances(seed);
    let good = 0;
    for (const frame of frames) {
      for (let n = 0; n < 60; n++) {
        const body = mutant(chance, frame.subarray(4));
        let message;
        try {
          message = decodeBody(body);
        } catch (error) {
          assert.ok(error instanceof Error && error.message !== "", String(error));
          continue;
        }
        good++;
        assert.equal(typeof message[0], "string");
      }
    }
    assert.ok(good > 100, `only ${good} messages`);
  });

  test(`any split of a stream cuts the same bodies, seed ${seed}`, () => {
    const chance = chances(seed);
    const stream = Buffer.concat(frames);
    const cutter = new FrameCutter();
    const bodies = [];
    for (let at = 0; at < stream.length;) {
      const size = [1, 2, 3, 4, 5, 50, 5000][chance(7)];
      cutter.push(stream.subarray(at, at + size), (body) => bodies.push(Buffer.from(body)));
      at += size;
    }
    assert.deepEqual(bodies, frames.map((frame) => frame.subarray(4)));
  });
}

test("a frame of the limit is cut, and one byte more is refused before anything is kept", () => {
  const bodies = [];
  const length = Buffer.alloc(4);
  length.writeUInt32BE(MAX_FRAME_BYTES);
  const cutter = new FrameCutter();
  cutter.push(Buffer.concat([length, Buffer.alloc(MAX_FRAME_BYTES)]), (body) => bodies.push(body.length));
  assert.deepEqual(bodies, [4_194_304]);
  for (const size of [0, MAX_FRAME_BYTES + 1, 0x2f686f6d]) {
    length.writeUInt32BE(size);
    assert.throws(() => new FrameCutter().push(length, () => assert.fail("a body")), new RegExp(String(size)));
  }
});
