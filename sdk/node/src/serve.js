/** Connects a streamlet with the supervisor that launched this program. */
import { relative } from "node:path";
import { inspect } from "node:util";
import { current } from "./current.js";
import { decodeBody } from "./frames.js";
import { Link } from "./link.js";
import { Session } from "./session.js";
import { wire } from "./takeover.js";
/** How long a streamlet's `close` has, in milliseconds. */
const CLOSE_MS = 5_000;
let serving = false;
/**
 * Serves the streamlet to the ankka-flow that launched this program, until that ends; then the process exits. In a
 * program that was started by hand it says how to run it, and exits with 2. Throws TypeError that says everything
 * that is wrong with the streamlet.
 */
export function serve(streamlet, { maxInFlight = 32 } = {}) {
    if (!Number.isSafeInteger(maxInFlight) || maxInFlight < 1)
        throw new TypeError(`maxInFlight must be a whole number, 1 or more, not ${maxInFlight}`);
    if (serving)
        throw new Error("serve was called before; a process serves one streamlet");
    serving = true;
    if (wire === null) {
        new Session(streamlet, { send() { }, refused() { }, broken() { }, pings: true, maxInFlight }); // says what is wrong with it
        sayHowToRun(streamlet.name);
    }
    else {
        connect(streamlet, wire, maxInFlight);
    }
}
function connect(streamlet, to, maxInFlight) {
    const session = new Session(streamlet, {
        send: (frames) => link.send(frames),
        refused: (problems) => die(`ankka-flow refuses this streamlet: ${problems.join("; ")}`),
        broken: (reason) => die(`configure failed: ${inspect(reason)}`),
        pings: true,
        maxInFlight,
    });
    let ended = false;
    const link = new Link(to, {
        body: (body) => {
            try {
                session.receive(decodeBody(body));
            }
            catch (error) {
                die(`reading the supervisor's message: ${inspect(error)}`);
            }
        },
        end: (problem) => {
            if (ended)
                return;
            ended = true;
            if (problem !== null)
                process.stderr.write(`ankka-flow: ${problem}\n`);
            const code = session.owed > 0 || problem !== null ? 1 : 0;
            void closed(streamlet).then((well) => process.exit(well ? code : 1));
        },
    });
    answerForTheDying();
}
/** Waits for the streamlet's `close`; says whether it went well. */
async function closed(streamlet) {
    if (streamlet.close === undefined)
        return true;
    const timeout = setTimeout(() => die(`close took longer than ${CLOSE_MS} ms`), CLOSE_MS);
    try {
        await streamlet.close();
        return true;
    }
    catch (error) {
        process.stderr.write(`ankka-flow: close failed: ${inspect(error)}\n`);
        return false;
    }
    finally {
        clearTimeout(timeout);
    }
}
/**
 * What would end the process, or go unnoticed, inside a handler becomes its batch's failure, so that the supervisor
 * knows which batch it was.
 */
function answerForTheDying() {
    process.on("exit", (code) => {
        current.getStore()?.fail(new ExitError(`process.exit(${code}) was called while the batch was handled`));
    });
    process.on("uncaughtExceptionMonitor", (error) => {
        current.getStore()?.fail(error);
    });
    process.on("unhandledRejection", (reason) => {
        const run = current.getStore();
        if (run !== undefined && !run.answered) {
            process.stderr.write(`ankka-flow: a promise that the handler did not wait for was rejected: ${inspect(reason)}\n`);
            run.poison(reason);
        }
        else if (process.listenerCount("unhandledRejection") === 1) {
            throw reason; // as Node does where nobody listens: the program's state is unknown
        }
    });
}
/** The program called process.exit in a handler. */
class ExitError extends Error {
    name = "ExitError";
}
function die(why) {
    process.stderr.write(`ankka-flow: ${why}\n`);
    process.exit(1);
}
function sayHowToRun(name) {
    const file = process.argv[1] === undefined ? "streamlet.mjs" : relative(process.cwd(), process.argv[1]);
    const node = /\.[mc]?tsx?$/.test(file) ? "npx tsx" : "node";
    process.stderr.write(`${name} is a streamlet; nothing sends it records.\n  run:   ankka-flow run -- ${node} ${file}\n`);
    process.exit(2);
}
