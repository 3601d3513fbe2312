/** Which batch the code that runs belongs to, through awaits, timers and events. */
import { AsyncLocalStorage } from "node:async_hooks";
import type { BatchRun } from "./batchrun.js";

export const current = new AsyncLocalStorage<BatchRun>();

/** Counts an emit that was made, so that one that is never returned can be warned about. */
export function noteMade(): void {
  const run = current.getStore();
  if (run !== undefined) run.made++;
}
