/** Which batch the code that runs belongs to, through awaits, timers and events. */
import { AsyncLocalStorage } from "node:async_hooks";
export const current = new AsyncLocalStorage();
/** Counts an emit that was made, so that one that is never returned can be warned about. */
export function noteMade() {
    const run = current.getStore();
    if (run !== undefined)
        run.made++;
}
