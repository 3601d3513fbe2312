import { MAX_TEXT } from "./frames.js";
export class Context {
    #run;
    /** The topic of the inlet. */
    topic;
    constructor(run, topic) {
        this.#run = run;
        this.topic = topic;
    }
    /** The inlet's name. */
    get inlet() {
        return this.#run.inlet;
    }
    get partition() {
        return this.#run.partition;
    }
    /** Which delivery this is, from 1, of the batch's first record by this supervisor since the last commit: a hint. */
    get attempt() {
        return this.#run.attempt;
    }
    /** Aborted when the batch's answer no longer counts: pass it to fetch and the like. */
    get signal() {
        return this.#run.abort.signal;
    }
    /** Whether the batch's answer no longer counts, so that a long handler should return. */
    get stopping() {
        return this.#run.isVoid;
    }
    /** Adds to a counter of /metrics; counts when the batch commits. */
    counter(name, increment = 1, labels = null) {
        this.#run.report([name, "counter", labels, increment]);
    }
    /** Sets a gauge of /metrics; counts when the batch commits. */
    gauge(name, value, labels = null) {
        this.#run.report([name, "gauge", labels, value]);
    }
    /** Tells the supervisor where a long handler is; feeds its warning about a stalled partition. */
    status({ offset = this.#run.at?.offset, attempt, waiting, nextAttemptMs, error }) {
        this.#run.sendNow(["status", this.#run.id, { offset, attempt, waiting, next_attempt_ms: nextAttemptMs, error: error?.slice(0, MAX_TEXT) }]);
    }
}
