/** The worker thread that reads the supervisor's frames, answers its pings and hands everything else to the main thread. */
import { Socket } from "node:net";
import { parentPort, workerData } from "node:worker_threads";
import { decodeBody, encodeFrame, FrameCutter } from "./frames.js";
import { writeAll } from "./link.js";
import { WireLock } from "./wirelock.js";
/** How long the main thread may compute on after the end of input, in milliseconds, before the process is killed. */
const GRACE_MS = 5_000;
/** A ping is short; a longer frame is not looked into here. */
const LONGEST_PING = 1_024;
if (parentPort !== null)
    read(parentPort, workerData);
function read(main, data) {
    const lock = new WireLock(data.lock);
    const cutter = new FrameCutter();
    const socket = new Socket({ fd: data.input, readable: true, writable: false });
    let ended = false;
    const end = (problem) => {
        if (ended)
            return;
        ended = true;
        socket.destroy();
        main.postMessage({ problem });
        // The main thread exits when it takes the message. One that never does would outlive its supervisor.
        setTimeout(() => process.kill(process.pid, "SIGKILL"), GRACE_MS);
    };
    socket.on("data", (chunk) => {
        try {
            cutter.push(chunk, (body) => {
                const pong = pongFor(body);
                if (pong === null)
                    main.postMessage(body, [body.buffer]);
                else
                    sendPong(data.output, lock, pong);
            });
        }
        catch (error) {
            end(error.message);
        }
    });
    socket.on("error", (error) => end(error.message));
    socket.on("close", () => end(null));
}
function pongFor(body) {
    if (body.length > LONGEST_PING)
        return null;
    const [kind, n] = decodeBody(body);
    return kind === "ping" ? encodeFrame(["pong", n]) : null;
}
/** Waiting for the lock in this thread would stop the reading for as long as the main thread's write blocks. */
function sendPong(output, lock, pong) {
    if (!lock.tryAcquire()) {
        setTimeout(sendPong, 1, output, lock, pong);
        return;
    }
    try {
        writeAll(output, pong);
    }
    catch {
        // Nobody reads any more: the end of input follows.
    }
    finally {
        lock.release();
    }
}
