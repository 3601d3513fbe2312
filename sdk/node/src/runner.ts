/** Runs a batch's handler to its answer. */
import type { BatchRun } from "./batchrun.js";
import type { Context } from "./context.js";
import { current } from "./current.js";
import type { Emits, Streamlet } from "./streamlet.js";

/** How long handlers may compute without letting other batches, timers and the supervisor's messages have their turn, in milliseconds. */
const SLICE_MS = 20;

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

let lastTurn = 0;

/** Handles the batch and answers it, once, whatever the handler does. Never rejects. */
export async function handle(streamlet: Streamlet, run: BatchRun, context: Context): Promise<void> {
  try {
    await current.run(run, () => callHandler(streamlet, run, context));
    // A promise that the handler did not wait for, and that is rejected by now, is reported after this turn.
    await turn();
    lastTurn = performance.now();
    warnOfLostEmits(run);
    run.acknowledge();
  } catch (error) {
    run.fail(error);
  }
}

async function callHandler(streamlet: Streamlet, run: BatchRun, context: Context): Promise<void> {
  const now = performance.now();
  if (now - lastTurn > SLICE_MS) lastTurn = now; // nothing computed meanwhile: this batch has a slice of its own
  if (streamlet.process !== undefined) {
    await run.take(await streamlet.process(run, context));
    return;
  }
  for (const record of run.records) {
    if (run.isVoid) return;
    run.at = record;
    const result = streamlet.processRecord?.(record, context);
    const emits = isPromise(result) ? await result : result;
    // Nothing and a single emit are taken without a promise: this is the hot path.
    if (!run.takeNow(emits)) await run.take(emits);
    if (performance.now() - lastTurn > SLICE_MS) {
      await turn();
      lastTurn = performance.now();
    }
  }
  run.at = null;
}

function isPromise(result: unknown): result is Promise<Emits> {
  return typeof (result as Promise<Emits> | null | undefined)?.then === "function";
}

let warned = false;

function warnOfLostEmits(run: BatchRun): void {
  if (warned || run.isVoid || run.taken >= run.made) return;
  warned = true;
  process.stderr.write(`ankka-flow: a handler made ${run.made} emits and returned or yielded ${run.taken}; what is not returned or yielded is not written\n`);
}
