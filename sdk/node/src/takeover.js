/**
 * Takes stdin and stdout away, before any code but this runs, for the protocol: what is printed, by console.log, by
 * a native library or by a program that the user's code starts, then goes to stderr.
 *
 * Node has no dup2. But open() returns the lowest free descriptor, so that closing 1 and opening stderr anew puts
 * stderr on 1, and the same puts /dev/null on 0. Before that, /dev/fd/0 and /dev/fd/1 are opened once more for the
 * protocol; Node opens with close-on-exec, so no other program inherits those. The process stays the one that was
 * launched: its exit code, its signals, its death with the supervisor and --inspect are as in any Node program, and
 * it costs a few system calls.
 *
 * Where a descriptor cannot be opened a second time (it is a socket, or a pipe that belongs to another user, as after
 * `gosu`), the program is started once more with its descriptors arranged, and this one waits for it: a second
 * process, 40 ms and 40 MB. Rejected: doing that always (those costs, and a signal sent to the first is not seen by
 * the second), and running user code in a worker thread (that leaves descriptor 1 to native code and child processes).
 */
import { spawnSync } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { close as closeInspector } from "node:inspector";
import { isMainThread } from "node:worker_threads";
const LAUNCHED = "ANKKA_FLOW_PROTOCOL";
const ARRANGED = "ANKKA_FLOW_NODE_ARRANGED";
/** Set where ankka-flow launched this program and this is its main thread. */
export const wire = takeOver();
function takeOver() {
    if (!isMainThread || process.env[LAUNCHED] === undefined)
        return null;
    if (process.env[ARRANGED] !== undefined) {
        delete process.env[LAUNCHED];
        delete process.env[ARRANGED];
        return { input: 3, output: 4 };
    }
    let input, output, errors;
    try {
        input = openSync("/dev/fd/0", "r");
        output = openSync("/dev/fd/1", "w");
        errors = openSync("/dev/fd/2", "a");
    }
    catch {
        return startArranged();
    }
    delete process.env[LAUNCHED];
    closeSync(errors);
    replace(1, "/dev/fd/2", "a");
    replace(0, "/dev/null", "r");
    return { input, output };
}
/** Between the two calls another thread may open a file. Nothing else runs while modules are loaded, but if it does, the program must not go on with a stranger's file as its stdout. */
function replace(fd, path, flags) {
    closeSync(fd);
    const got = openSync(path, flags);
    if (got === fd)
        return;
    process.stderr.write(`ankka-flow: descriptor ${fd} was taken by another thread while it was being replaced (got ${got}); import "ankka-flow" before anything that opens files in the background\n`);
    process.exit(1);
}
function startArranged() {
    closeInspector(); // so that the program that is debugged can have the port
    const { error, status, signal } = spawnSync(process.execPath, [...process.execArgv, ...process.argv.slice(1)], {
        stdio: ["ignore", 2, 2, 0, 1],
        env: { ...process.env, [ARRANGED]: "1" },
    });
    if (error !== undefined) {
        process.stderr.write(`ankka-flow: starting the program with its descriptors arranged: ${error.message}\n`);
    }
    if (signal !== null)
        process.kill(process.pid, signal);
    process.exit(status ?? 1);
}
