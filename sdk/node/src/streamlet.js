import { Config, Parameter } from "./parameters.js";
import { JsonInlet, JsonOutlet } from "./ports.js";
/**
 * A streamlet: its ports and parameters are its fields, its handler is `processRecord` or `process`. Returning
 * acknowledges the batch, throwing fails it and it comes again; a record for which nothing is emitted is skipped for
 * good. Batches of different partitions are handled at the same time, those of one partition never are.
 */
export class Streamlet {
    description = "";
    #config = null;
    #link = null;
    /** The parameters' values; set before the first record comes. */
    get config() {
        if (this.#config === null)
            throw new Error("the configuration comes with the first conversation: read it in configure or in a handler");
        return this.#config;
    }
    /** Writes a structured record to the supervisor's log. console.log works as well; its lines have no level and no fields. */
    log(level, message, fields = null) {
        this.#link?.log(level, message, fields);
    }
    /** Adds to a counter of /metrics, at once. A context's counter counts when its batch commits. */
    counter(name, increment = 1, labels = null) {
        this.#link?.counter(name, increment, labels);
    }
    /** Sets a gauge of /metrics, at once. */
    gauge(name, value, labels = null) {
        this.#link?.gauge(name, value, labels);
    }
    /** Says where logs and numbers go. For the SDK. */
    static connect(streamlet, link) {
        streamlet.#link = link;
    }
    /** Sets the values of a conversation. For the SDK; a test uses the harness. */
    static configure(streamlet, config) {
        streamlet.#config = config;
    }
}
/** Reads a streamlet's fields. Throws TypeError that says everything that is wrong with it. */
export function declarationOf(streamlet) {
    const fields = Object.values(streamlet);
    const declaration = {
        name: streamlet.name,
        description: streamlet.description,
        inlets: fields.filter((field) => field instanceof JsonInlet),
        outlets: fields.filter((field) => field instanceof JsonOutlet),
        parameters: fields.filter((field) => field instanceof Parameter),
    };
    const problems = problemsOf(streamlet, declaration);
    if (problems.length > 0)
        throw new TypeError(`${streamlet.constructor.name}: ${problems.join("; ")}`);
    return declaration;
}
function problemsOf(streamlet, { name, inlets, outlets, parameters }) {
    const problems = [];
    if (typeof name !== "string" || !/^(?!-)[a-z0-9-]{1,63}(?<!-)$/.test(name)) {
        problems.push(`the name ${JSON.stringify(name)} must match [a-z0-9-]{1,63}, without a hyphen at an end`);
    }
    const ports = [...inlets, ...outlets].map((port) => port.name);
    if (ports.length === 0)
        problems.push("it has no inlet and no outlet: make them fields, as in inlet = new JsonInlet(...)");
    for (const twice of repeated(ports))
        problems.push(`two ports are named ${twice}`);
    for (const twice of repeated(parameters.map((parameter) => parameter.key)))
        problems.push(`two parameters have the key ${twice}`);
    const handlers = [streamlet.process, streamlet.processRecord].filter((handler) => typeof handler === "function").length;
    if (handlers !== 1 && inlets.length > 0)
        problems.push(`it must have one of processRecord and process, and has ${handlers === 0 ? "neither" : "both"}`);
    return problems;
}
function repeated(names) {
    return [...new Set(names.filter((name, at) => names.indexOf(name) !== at))];
}
