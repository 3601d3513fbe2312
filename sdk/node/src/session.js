/**
 * The process's side of the protocol, without IO: messages in, messages out. It knows who may send what when, which
 * batches owe an answer, and what a `stop` waits for; it does not know pipes, threads or how a process exits.
 */
import { BatchRun, checked } from "./batchrun.js";
import { Context } from "./context.js";
import { descriptorOf } from "./descriptor.js";
import { encodeFrame, MAX_FRAME_BYTES, MAX_RECORD_BYTES } from "./frames.js";
import { Config } from "./parameters.js";
import { handle } from "./runner.js";
import { declarationOf, Streamlet } from "./streamlet.js";
/** Messages kept until the supervisor may be sent them; later ones are dropped. */
const MAX_EARLY = 1_000;
export class Session {
    outlets;
    #streamlet;
    #descriptor;
    #end;
    #owed = new Map();
    #state = "new";
    #limits = { maxFrameBytes: MAX_FRAME_BYTES, maxRecordBytes: MAX_RECORD_BYTES };
    #topics = {};
    /** Settles when this conversation's `configure` has returned. */
    #configured = null;
    #early = [];
    /** Throws TypeError that says everything that is wrong with the streamlet. */
    constructor(streamlet, end) {
        const declaration = declarationOf(streamlet);
        this.#streamlet = streamlet;
        this.#descriptor = descriptorOf(declaration);
        this.#end = end;
        this.outlets = new Set(declaration.outlets.map((outlet) => outlet.name));
        Streamlet.connect(streamlet, {
            log: (level, message, fields) => this.#whenReady(["log", level, message, fields]),
            counter: (name, increment, labels) => this.#report(name, "counter", increment, labels),
            gauge: (name, value, labels) => this.#report(name, "gauge", value, labels),
        });
    }
    get state() {
        return this.#state;
    }
    get limits() {
        return this.#limits;
    }
    /** The batches that owe an answer, void ones included. */
    get owed() {
        return this.#owed.size;
    }
    send(frames) {
        this.#end.send(frames);
    }
    /** Takes the supervisor's next message. */
    receive(message) {
        switch (message[0]) {
            case "discover":
                return this.#discover(message[1]);
            case "refuse":
                return this.#end.refused(message[1]);
            case "start":
                return this.#start(message[1]);
            case "batch":
                return this.#batch(message);
            case "revoke":
                return this.#owed.get(message[1])?.makeVoid("its partition was taken away");
            case "ping":
                return this.#say(["pong", message[1]]);
            case "stop":
                return this.#stop(message[1]);
            default: // A later version's message, which is not sent to a process of this one.
                process.stderr.write(`ankka-flow: ignored a message of the unknown kind ${message[0].slice(0, 64)}\n`);
        }
    }
    #say(message) {
        this.#end.send(encodeFrame(message));
    }
    #discover(info) {
        this.#state = "asked";
        this.#limits = {
            maxFrameBytes: Math.min(info?.max_frame_bytes ?? MAX_FRAME_BYTES, MAX_FRAME_BYTES),
            maxRecordBytes: info?.max_record_bytes ?? MAX_RECORD_BYTES,
        };
        this.#say(["spec", this.#descriptor, { ping: this.#end.pings, max_in_flight: this.#end.maxInFlight, errors: false }]);
        this.#state = "ready";
        for (const message of this.#early.splice(0))
            this.#say(message);
    }
    #start({ config, inlets }) {
        this.#state = "running";
        this.#topics = inlets;
        Streamlet.configure(this.#streamlet, new Config(config));
        this.#configured = null;
        if (this.#streamlet.configure === undefined)
            return;
        const configure = async () => this.#streamlet.configure?.();
        this.#configured = configure().catch((reason) => this.#end.broken(reason));
    }
    #batch(message) {
        const run = new BatchRun(message, this);
        this.#owed.set(run.id, run);
        void this.#handle(run, new Context(run, this.#topics[run.inlet] ?? ""));
    }
    async #handle(run, context) {
        await this.#configured;
        await handle(this.#streamlet, run, context);
        this.#owed.delete(run.id);
        this.#endIfFinished();
    }
    #stop({ mode, reason }) {
        if (this.#state === "stopped")
            return;
        this.#state = "finishing";
        if (mode === "abandon")
            for (const run of this.#owed.values())
                run.makeVoid(reason ?? "the conversation was ended");
        this.#endIfFinished();
    }
    #endIfFinished() {
        if (this.#state !== "finishing")
            return;
        for (const run of this.#owed.values())
            if (!run.isVoid)
                return;
        this.#state = "stopped";
        this.#say(["stopped"]);
    }
    #report(name, kind, number, labels) {
        this.#whenReady(["report", null, [checked([name, kind, labels, number])]]);
    }
    #whenReady(message) {
        if (this.#state !== "new" && this.#state !== "asked")
            this.#say(message);
        else if (this.#early.length < MAX_EARLY)
            this.#early.push(message);
    }
}
