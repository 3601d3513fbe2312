// Real processes, over the pipes of a shell (as ankka-flow's are) and over the sockets that Node gives a child.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, test } from "node:test";
import { Process, record, streamlet } from "./supervisor.mjs";

const text = (bytes) => Buffer.from(bytes).toString();

for (const pipes of [true, false]) {
  describe(pipes ? "over pipes" : "over sockets, started again", () => {
    test("what is printed goes to stderr, from everywhere", async () => {
      const p = new Process("commands.mjs", { pipes });
      await p.start();
      p.batch(1, [record(0, "print"), record(1, "parent")]);
      await p.message("ack", 1);
      // Over pipes the process is the one that was launched.
      assert.deepEqual(p.emitted(1).map(([, value]) => text(value)), ["printed", pipes ? "sh" : process.execPath]);
      for (const line of ["printed at the start", "from console.log", "from process.stdout", "from descriptor 1", "from a child", "from a shell"]) {
        await p.stderrHas(`${line}\n`);
      }
      assert.equal(await p.end(), 0);
    });

    test("children read nothing, inherit no descriptor of the protocol, and do not take themselves for launched", async () => {
      const p = new Process("commands.mjs", { pipes });
      await p.start();
      p.batch(1, [record(0, "stdin"), record(1, "environment"), record(2, "descriptors")]);
      await p.message("ack", 1);
      const [stdin, environment, descriptors] = p.emitted(1).map(([, value]) => text(value));
      assert.equal(stdin, "");
      assert.equal(environment, "");
      const open = descriptors.split("\n").filter((line) => / -> (pipe|socket):/.test(line)).map((line) => Number(/ (\d+) ->/.exec(line)[1]));
      assert.deepEqual(open.filter((fd) => fd > 2 && fd < 100), [], descriptors);
      assert.equal(await p.end(), 0);
    });

    test("the last megabytes before process.exit are not lost, and the batch fails by name", async () => {
      const p = new Process("commands.mjs", { pipes });
      await p.start();
      p.batch(7, [record(40, "megabyteThenExit")]);
      const [, , info] = await p.message("fail", 7);
      assert.equal(info.kind, "ExitError");
      assert.equal(info.offset, 40);
      assert.match(info.message, /process\.exit\(3\)/);
      assert.equal(await p.exit(), 3);
      assert.ok(p.emitted(7).length >= 1_024, `${p.emitted(7).length} records came`);
    });

    test("the end of input ends it: 0 where nothing is owed, otherwise 1", async () => {
      const p = new Process("commands.mjs", { pipes });
      await p.start();
      p.batch(1, [record(0, "skip")]);
      p.batch(2, [record(0, "never")], 1);
      await p.message("ack", 1);
      assert.equal(await p.end(), 1);
      assert.equal(await new Process("commands.mjs", { pipes }).end(), 0);
    });
  });
}

test("a ping is answered while a handler computes", async () => {
  const p = new Process("commands.mjs");
  const { capabilities } = await p.start();
  assert.deepEqual(capabilities, { ping: true, max_in_flight: 32, errors: false });
  const until = join(mkdtempSync(join(tmpdir(), "ankka-flow-")), "enough");
  p.batch(1, [record(0, `busy ${until}`)]);
  await p.message("status", 1); // it computes from now on
  p.send(["ping", 8], ["ping", 9]);
  await p.message("pong", 9);
  writeFileSync(until, "");
  await p.message("ack", 1);
  assert.deepEqual(p.messages.map(([kind]) => kind), ["spec", "status", "pong", "pong", "emit", "ack"]);
  assert.deepEqual(p.messages.slice(2, 4), [["pong", 8], ["pong", 9]]);
  assert.equal(await p.end(), 0);
});

test("it reads while its output is full", async () => {
  const p = new Process("commands.mjs");
  await p.start();
  p.pause();
  p.batch(1, [record(0, "emitMuch")]);
  const megabyte = "x".repeat(1_048_576);
  for (let id = 2; id < 10; id++) p.batch(id, [record(0, `skip ${megabyte}`)], id);
  await p.sent(); // not before it has read them, while nobody reads what it writes
  for (let n = 0; n < 10; n++) p.send(["ping", n]); // the answers must not land inside a frame
  p.resume();
  await p.message("ack", 1);
  assert.equal(p.emitted(1).length, 32);
  for (let id = 2; id < 10; id++) await p.message("ack", id);
  assert.equal(await p.end(), 0);
});

test("a handler that throws fails its batch, and the process goes on", async () => {
  const p = new Process("commands.mjs");
  await p.start();
  p.batch(1, [record(5, "echo"), record(6, "throw"), record(7, "echo")]);
  const [, , info] = await p.message("fail", 1);
  assert.equal(info.message, "no total");
  assert.equal(info.kind, "RangeError");
  assert.equal(info.offset, 6);
  assert.match(info.detail, /commands\.mjs[^]*the cause/);
  assert.deepEqual(p.emitted(1), []);
  p.batch(2, [record(6, "throwNothing")]);
  assert.equal((await p.message("fail", 2))[2].message, "undefined");
  p.batch(3, [record(6, "echo")]);
  await p.message("ack", 3);
  assert.equal(await p.end(), 0);
});

test("a promise that the handler did not wait for fails its batch when it is rejected", async () => {
  const p = new Process("commands.mjs");
  await p.start();
  p.batch(1, [record(0, "skip"), record(1, "float")]);
  p.batch(2, [record(0, "floatLate")], 1);
  p.batch(3, [record(0, "echo")], 2);
  assert.equal((await p.message("fail", 1))[2].message, "floating");
  assert.equal((await p.message("fail", 2))[2].message, "floating late");
  await p.message("ack", 3);
  assert.equal((await p.message("status", 2))[2].error, "floating late");
  await p.stderrHas("Error: floating late");
  assert.equal(await p.end(), 0);
});

test("an exception that nobody catches fails its batch, then ends the process", async () => {
  const p = new Process("commands.mjs");
  await p.start();
  p.batch(1, [record(0, "never")]);
  p.batch(2, [record(3, "uncaught")], 1);
  assert.equal((await p.message("fail", 2))[2].message, "from a timer");
  assert.equal(await p.exit(), 1);
  assert.equal(p.messages.filter(([kind]) => kind === "fail").length, 1);
  assert.match(p.stderr, /Error: from a timer/);
});

test("a record at the limit passes, one byte more is refused by name", async () => {
  const p = new Process("commands.mjs");
  await p.start();
  const overhead = 1 + 1 + 5 + 1 + 1; // array, nil key, bin header, no headers, nil timestamp
  p.batch(1, [record(0, `large ${4_128_768 - overhead}`)]);
  await p.message("ack", 1);
  assert.equal(p.emitted(1)[0][1].length, 4_128_768 - overhead);
  p.batch(2, [record(1, `large ${4_128_768 - overhead + 1}`)]);
  const [, , info] = await p.message("fail", 2);
  assert.equal(info.kind, "RecordTooLargeError");
  assert.match(info.message, /outlet out has 4128769 bytes as encoded, the limit is 4128768/);
  assert.equal(await p.end(), 0);
});

test("status, report and log", async () => {
  const p = new Process("commands.mjs");
  await p.start();
  p.batch(4, [record(11, "report")]);
  await p.message("ack", 4);
  assert.deepEqual(p.messages.slice(1), [
    ["status", 4, { offset: 11, attempt: 2, waiting: true, next_attempt_ms: 5, error: "why" }],
    ["log", "warn", "said", { n: 1 }],
    ["report", null, [["now", "counter", null, 1]]],
    ["report", 4, [["carts", "counter", { kind: "large" }, 2], ["queue", "gauge", null, -1.5]]],
    ["ack", 4],
  ]);
  assert.equal(await p.end(), 0);
});

test("an emit that is not returned is warned about", async () => {
  const p = new Process("commands.mjs");
  await p.start();
  p.batch(1, [record(0, "lostEmit")]);
  await p.message("ack", 1);
  await p.stderrHas("made 1 emits and returned or yielded 0");
  await p.end();
});

test("refused: it logs every problem and exits with 1", async () => {
  const p = new Process("commands.mjs");
  p.send(["discover", {}]);
  await p.message("spec");
  p.send(["refuse", ["first problem", "second problem"]]);
  assert.equal(await p.exit(), 1);
  assert.match(p.stderr, /first problem; second problem/);
});

test("started by hand it says how to run it, touches nothing, and exits with 2", () => {
  const { ANKKA_FLOW_PROTOCOL: _, ...env } = process.env;
  const { status, stdout, stderr } = spawnSync(process.execPath, [streamlet("commands.mjs")], { env, encoding: "utf8" });
  assert.equal(status, 2);
  assert.equal(stdout, "printed at the start\n");
  assert.match(stderr, /^commands is a streamlet; nothing sends it records\.\n {2}run: {3}ankka-flow run -- node .*commands\.mjs\n {2}debug: ankka-flow run --attach, then start this program again.*\n$/);
});

test("TypeScript, by tsx", async () => {
  const tsx = new URL("../node_modules/.bin/tsx", import.meta.url).pathname;
  const p = new Process([tsx, streamlet("upper.ts")]);
  const { descriptor } = await p.start({ config: { suffix: "!" } });
  assert.equal(descriptor.streamlet.name, "upper");
  p.batch(1, [record(0, "a", "k"), record(1, "b")]);
  await p.message("ack", 1);
  assert.deepEqual(p.emitted(1).map(([key, value]) => [key && text(key), text(value)]), [["k", "A!"], [null, "B!"]]);
  assert.equal(await p.end(), 0);
});
