// The package as its users have it: packed, installed in a folder of theirs, and used as the README shows.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { Process, record } from "./supervisor.mjs";

const sdk = fileURLToPath(new URL("..", import.meta.url));
const readme = readFileSync(join(sdk, "README.md"), "utf8");
const [example, harness] = [...readme.matchAll(/```js\n([^]*?)```/g)].map((match) => match[1]);
const project = join(mkdtempSync(join(tmpdir(), "ankka-flow-")), "project");
const run = (file, ...args) => execFileSync(file, args, { cwd: project, encoding: "utf8" });
const bin = (name) => join(sdk, "node_modules", ".bin", name);

before(() => {
  mkdirSync(project);
  writeFileSync(join(project, "package.json"), '{ "name": "project", "private": true, "type": "module" }\n');
  // The build was made by whoever runs the tests; a second one would write the files that other tests read.
  const [{ filename }] = JSON.parse(execFileSync("npm", ["pack", "--json", "--ignore-scripts", "--pack-destination", project], { cwd: sdk, encoding: "utf8" }));
  run("npm", "install", "--silent", "--prefer-offline", `./${filename}`);
});

const both = { compilerOptions: { target: "ES2022", strict: true, noEmit: true, types: ["node"], skipLibCheck: false, exactOptionalPropertyTypes: true } };

test("it brings @msgpack/msgpack and nothing else", () => {
  const { dependencies } = JSON.parse(run("npm", "ls", "--all", "--json"));
  assert.deepEqual(Object.keys(dependencies), ["ankka-flow"]);
  assert.deepEqual(Object.keys(dependencies["ankka-flow"].dependencies), ["@msgpack/msgpack"]);
});

test("the README's streamlet and its test run", async () => {
  writeFileSync(join(project, "router.mjs"), example);
  const p = new Process([process.execPath, join(project, "router.mjs")]);
  const { descriptor } = await p.start();
  assert.equal(descriptor.streamlet.name, "router");
  p.batch(1, [record(0, '{"total": 7}'), record(1, '{"total": 0}')]);
  await p.message("ack", 1);
  assert.deepEqual(p.messages.slice(1), [["forward", 1, "valid", [0]], ["ack", 1]]);
  assert.equal(await p.end(), 0);
  writeFileSync(join(project, "test.mjs"), example.replace(/^serve\(.*$/m, "") + harness);
  run(process.execPath, "test.mjs");
});

test("its types are those of the code, strictly, in every kind of resolution", async () => {
  const typed = `
import { JsonInlet, JsonOutlet, serve, Streamlet, type Context, type Emit, type FlowRecord } from "ankka-flow";
import { Harness } from "ankka-flow/testkit";
export class Router extends Streamlet {
  readonly name = "router";
  readonly inlet = new JsonInlet("in", { schemaName: "cart.v1" });
  readonly valid = new JsonOutlet("valid", { schemaName: "cart.v1" });
  override async processRecord(record: FlowRecord, context: Context): Promise<Emit | null> {
    context.signal.throwIfAborted();
    return record.json<{ total: number }>().total > 0 ? this.valid.emit(record, { headers: [["at", String(context.partition)]] }) : null;
  }
}
const h: Harness = new Harness(new Router());
h.inlet("in").put({ value: null });
if (process.argv.length > 99) serve(new Router());
// @ts-expect-error: an outlet is no inlet's option
new JsonInlet("in", { schema: "cart.v1" });
`;
  writeFileSync(join(project, "router.ts"), typed);
  symlinkSync(join(sdk, "node_modules", "@types"), join(project, "node_modules", "@types"));
  symlinkSync(join(sdk, "node_modules", "undici-types"), join(project, "node_modules", "undici-types"));
  for (const resolution of [{ module: "NodeNext", moduleResolution: "NodeNext" }, { module: "ESNext", moduleResolution: "Bundler" }]) {
    writeFileSync(join(project, "tsconfig.json"), JSON.stringify({ ...both, compilerOptions: { ...both.compilerOptions, ...resolution }, files: ["router.ts"] }));
    run(bin("tsc"));
  }
});
