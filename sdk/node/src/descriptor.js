/** The streamlet's declaration as the protocol's descriptor. */
import { readFileSync } from "node:fs";
import { PROTOCOL_VERSION } from "./frames.js";
const PACKAGE = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));
/** This SDK's version. */
export const VERSION = PACKAGE.version;
/** The descriptor as a value; empty fields are left out, ports are sorted by name and parameters by key. */
export function descriptorOf(declaration) {
    const { name, description, inlets, outlets, parameters } = declaration;
    return dropEmpty({
        protocol_version: PROTOCOL_VERSION,
        sdk: { name: `${PACKAGE.name} (Node.js)`, version: VERSION },
        streamlet: {
            name,
            description,
            inlets: sorted(inlets.map(portOf), "name"),
            outlets: sorted(outlets.map(portOf), "name"),
            config_parameters: sorted(parameters.map((p) => ({ key: p.key, description: p.description, type: p.type === "STRING" ? "" : p.type, default_value: p.defaultText ?? "" })), "key"),
        },
    });
}
/** The descriptor as its canonical JSON. */
export function canonicalJson(descriptor) {
    return `${JSON.stringify(sortKeys(descriptor), null, 2)}\n`;
}
function portOf(port) {
    return { name: port.name, contract: { format: port.format, schema_name: port.schemaName, fingerprint: port.fingerprint } };
}
function sorted(items, by) {
    const keyOf = (item) => item[by];
    return items.sort((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1));
}
function dropEmpty(value) {
    if (Array.isArray(value))
        return value.map(dropEmpty);
    if (typeof value !== "object" || value === null)
        return value;
    const isEmpty = (field) => field === "" || (Array.isArray(field) && field.length === 0);
    return Object.fromEntries(Object.entries(value).filter(([, field]) => !isEmpty(field)).map(([key, field]) => [key, dropEmpty(field)]));
}
function sortKeys(value) {
    if (Array.isArray(value))
        return value.map(sortKeys);
    if (typeof value !== "object" || value === null)
        return value;
    return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, field]) => [key, sortKeys(field)]));
}
