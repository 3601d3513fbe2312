// A program that was started by hand, attached to a supervisor played over a Unix socket.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, realpathSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, test } from "node:test";
import { decodeBody, encodeFrame, FrameCutter } from "../dist/frames.js";
import { record, streamlet } from "./supervisor.mjs";

const ends = [];
afterEach(() => {
  for (const end of ends.splice(0)) end();
});

/** A folder with a supervisor at its socket, or at that path. */
async function supervisor(path = ".ankka-flow/attach.sock") {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "ankka-flow-")));
  mkdirSync(dirname(join(folder, path)), { recursive: true });
  const server = createServer().listen(join(folder, path));
  await once(server, "listening");
  ends.push(() => server.close());
  return { folder, server };
}

/** The link to a program that connects. */
async function accept(server) {
  const [socket] = await once(server, "connection");
  ends.push(() => socket.destroy());
  const messages = [];
  const news = [];
  const cutter = new FrameCutter();
  socket.on("data", (chunk) => cutter.push(chunk, (body) => {
    messages.push(decodeBody(body));
    for (const look of news.splice(0)) look();
  }));
  return {
    socket,
    messages,
    send: (...sent) => socket.write(Buffer.concat(sent.map(encodeFrame))),
    async message(kind) {
      let found;
      while ((found = messages.find((message) => message[0] === kind)) === undefined) await new Promise((resolve) => news.push(resolve));
      return found;
    },
    async start() {
      this.send(["discover", { protocol: "1.0" }]);
      const spec = await this.message("spec");
      this.send(["start", { conversation: 1, config: {}, inlets: { in: "t" }, outlets: { out: "t" } }]);
      return spec;
    },
  };
}

function byHand(cwd, args, variables = {}) {
  const { ANKKA_FLOW_PROTOCOL: _, FLOW_ATTACH: __, ...env } = process.env;
  const child = spawn(process.execPath, args, { cwd, env: { ...env, ...variables }, stdio: "pipe" });
  ends.push(() => child.kill("SIGKILL"));
  const p = { child, stdout: "", stderr: "", exit: once(child, "close").then(([code]) => code) };
  const looks = [];
  for (const name of ["stdout", "stderr"]) {
    child[name].setEncoding("utf8").on("data", (text) => {
      p[name] += text;
      for (const look of looks.splice(0)) look();
    });
  }
  /** Waits for a text on stdout behind what was waited for before. */
  let seen = 0;
  p.says = async (text) => {
    while (p.stdout.indexOf(text, seen) < 0) await new Promise((resolve) => looks.push(resolve));
    seen = p.stdout.indexOf(text, seen) + text.length;
  };
  return p;
}

test("stdin and stdout stay the program's own, and the socket is found from below", async () => {
  const { folder, server } = await supervisor();
  const below = join(folder, "a", "b");
  mkdirSync(below, { recursive: true });
  const p = byHand(below, [streamlet("commands.mjs")]);
  const link = await accept(server);
  const [, { streamlet: { name } }, capabilities] = await link.start();
  assert.equal(name, "commands");
  assert.equal(capabilities.ping, false); // a debugger that stops the handler stops the reading
  link.send(["batch", 1, "in", 0, [record(0, "print"), record(1, "forward")], { attempt: 1 }]);
  await link.message("ack");
  assert.deepEqual(link.messages.slice(1).map(([kind]) => kind), ["emit", "forward", "ack"]);
  link.socket.end();
  assert.equal(await p.exit, 0);
  assert.equal(p.stdout, "printed at the start\nfrom console.log\nfrom process.stdout\nfrom descriptor 1\nfrom a child\nfrom a shell\n");
  assert.equal(p.stderr, "ankka-flow: commands is attached; stdin and stdout are its own\n");
});

test("node's debugger stops in the handler, changes what is there, and goes on", async () => {
  const { folder, server } = await supervisor();
  const p = byHand(folder, ["inspect", "--port=0", streamlet("debugged.mjs")]);
  const type = (line) => p.child.stdin.write(`${line}\n`);
  await p.says("Break on start");
  await p.says("debug> ");
  type("cont");
  const link = await accept(server);
  await link.start();
  link.send(["batch", 1, "in", 0, [record(7, "21", "k")], { attempt: 1 }]);
  await p.says("break in");
  type("exec doubled");
  await p.says("42");
  assert.deepEqual(link.messages.map(([kind]) => kind), ["spec"]); // nothing is answered while it stands
  type("exec doubled = 43");
  await p.says("43");
  type("cont");
  await p.says("doubled is 43");
  await link.message("ack");
  assert.equal(Buffer.from(link.messages[1][3][0][1]).toString(), "43");
});

test("what it emits without end goes out while the supervisor reads, and end of input with a batch is an exit with 1", async () => {
  const { folder, server } = await supervisor("x.sock");
  const p = byHand(folder, [streamlet("commands.mjs")], { FLOW_ATTACH: "x.sock" });
  const link = await accept(server);
  await link.start();
  link.send(["batch", 1, "in", 0, [record(0, "emitMuch")], { attempt: 1 }]);
  await link.message("ack");
  assert.equal(link.messages.filter(([kind]) => kind === "emit").flatMap((emit) => emit[3]).length, 32);
  link.send(["batch", 2, "in", 0, [record(0, "never")], { attempt: 1 }], ["ping", 1]);
  await link.message("pong");
  link.socket.destroy();
  assert.equal(await p.exit, 1);
});

test("process.exit in a handler is named", async () => {
  const { folder, server } = await supervisor();
  const p = byHand(folder, [streamlet("commands.mjs")]);
  const link = await accept(server);
  await link.start();
  link.send(["batch", 1, "in", 0, [record(0, "exit")], { attempt: 1 }]);
  assert.equal((await link.message("fail"))[2].kind, "ExitError");
  assert.equal(await p.exit, 3);
});

test("refused: it prints the problem and exits with 1", async () => {
  const { folder, server } = await supervisor();
  const p = byHand(folder, [streamlet("commands.mjs")]);
  const link = await accept(server);
  link.send(["refuse", ["another program is attached"]]);
  link.socket.end();
  assert.equal(await p.exit, 1);
  assert.match(p.stderr, /another program is attached/);
});

test("a supervisor that breaks the protocol", async () => {
  const { folder, server } = await supervisor();
  const p = byHand(folder, [streamlet("commands.mjs")]);
  const link = await accept(server);
  link.socket.write(Buffer.alloc(4));
  assert.equal(await p.exit, 1);
  assert.match(p.stderr, /the supervisor broke the protocol: a frame of 0 bytes/);
});

test("nobody listens there", async () => {
  const { folder, server } = await supervisor();
  server.close();
  await once(server, "close");
  const named = byHand(folder, [streamlet("commands.mjs")], { FLOW_ATTACH: ".ankka-flow/attach.sock" });
  assert.equal(await named.exit, 2);
  assert.match(named.stderr, /FLOW_ATTACH=.*: ENOENT; does `ankka-flow run --attach` run there\?/);
  const p = byHand(folder, [streamlet("commands.mjs")]);
  assert.equal(await p.exit, 2);
  assert.match(p.stderr, /commands is a streamlet; nothing sends it records\./);
});
