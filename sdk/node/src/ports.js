/** Inlets, outlets, and what is emitted to them. */
import { createHash } from "node:crypto";
import { noteMade } from "./current.js";
/** The Base64 of the SHA-256 of a schema's name. */
export function fingerprint(schemaName) {
    return createHash("sha256").update(schemaName).digest("base64");
}
class JsonPort {
    name;
    schemaName;
    format = "json";
    constructor(name, { schemaName }) {
        if (!/^[a-z][a-z0-9-]{0,62}$/.test(name))
            throw new TypeError(`the port name ${JSON.stringify(name)} must match [a-z][a-z0-9-]{0,62}`);
        if (typeof schemaName !== "string" || schemaName === "")
            throw new TypeError(`the port ${name} needs a schemaName`);
        this.name = name;
        this.schemaName = schemaName;
    }
    get fingerprint() {
        return fingerprint(this.schemaName);
    }
}
/** Where records come from. Its topic is configured, not coded. */
export class JsonInlet extends JsonPort {
    kind = "inlet";
}
/** Where records go. */
export class JsonOutlet extends JsonPort {
    kind = "outlet";
    emit(first, changes = {}) {
        noteMade();
        if (first === null || isRecord(first))
            return { outlet: this, record: first, changes };
        return { outlet: this, record: null, changes: first };
    }
    /** Makes an emit of a record with that key and no value. */
    tombstone(key, headers = []) {
        return this.emit({ key, value: null, headers });
    }
}
function isRecord(value) {
    return "offset" in value && "index" in value;
}
/** Tells an emit from anything else that a handler may return. */
export function isEmit(value) {
    return typeof value === "object" && value !== null && value.outlet instanceof JsonOutlet;
}
