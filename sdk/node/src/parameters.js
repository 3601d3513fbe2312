/** Configuration parameters. Their text is that of the descriptor; their values come resolved with `start`. */
/** A parameter that a streamlet declares as a field, and reads with `this.config.get(this.field)`. */
export class Parameter {
    key;
    description;
    /** The default as text; null: a value must be configured. */
    defaultText;
    constructor(key, options = {}) {
        if (!/^[a-z][a-z0-9-]*$/.test(key))
            throw new TypeError(`the parameter key ${JSON.stringify(key)} must match [a-z][a-z0-9-]*`);
        this.key = key;
        this.description = options.description ?? "";
        this.defaultText = options.default === undefined ? null : String(options.default);
        if (this.defaultText === "")
            throw new TypeError(`parameter ${key}: an empty default is the same as none, and would make it required; leave it out`);
        if (this.defaultText !== null)
            this.parse(this.defaultText);
    }
    refuse(text, want) {
        throw new TypeError(`parameter ${this.key}: ${JSON.stringify(text)} is not ${want}`);
    }
}
export class StringParameter extends Parameter {
    type = "STRING";
    parse(text) {
        return text;
    }
}
export class IntegerParameter extends Parameter {
    type = "INTEGER";
    parse(text) {
        const value = Number(text);
        if (!/^[+-]?\d+$/.test(text.trim()) || !Number.isSafeInteger(value))
            this.refuse(text, "an integer within 2^53 - 1 of 0");
        return value;
    }
}
export class DoubleParameter extends Parameter {
    type = "DOUBLE";
    parse(text) {
        const value = Number(text);
        if (!new RegExp(`^${NUMBER}$`).test(text.trim()) || !Number.isFinite(value))
            this.refuse(text, "a finite number");
        return value;
    }
}
export class BooleanParameter extends Parameter {
    type = "BOOLEAN";
    parse(text) {
        const word = text.trim();
        if (word !== "true" && word !== "false")
            this.refuse(text, "true or false");
        return word === "true";
    }
}
const NUMBER = String.raw `[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?`;
const WITH_UNIT = new RegExp(`^(${NUMBER})\\s*([A-Za-z]*)$`);
const MILLISECONDS = {
    ns: 1e-6, us: 1e-3, ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000,
};
const DURATION_WORDS = {
    nano: 1e-6, nanosecond: 1e-6, micro: 1e-3, microsecond: 1e-3, milli: 1, millisecond: 1, second: 1_000, minute: 60_000, hour: 3_600_000, day: 86_400_000,
};
/** A duration in milliseconds; a default may also be text such as `"5 seconds"`. */
export class DurationParameter extends Parameter {
    type = "DURATION";
    parse(text) {
        const [, number, unit = "ms"] = WITH_UNIT.exec(text.trim()) ?? [];
        const factor = unit === "" ? 1 : (MILLISECONDS[unit] ?? DURATION_WORDS[unit.replace(/s$/, "")]);
        if (number === undefined || factor === undefined || Math.abs(Number(number) * factor) > Number.MAX_SAFE_INTEGER)
            this.refuse(text, "a duration such as 500ms or 5 seconds");
        return Number(number) * factor;
    }
}
const LETTERS = "KMGTPE";
const NAMES = ["kilo", "mega", "giga", "tera", "peta", "exa"];
const BINARY_NAMES = ["kibi", "mebi", "gibi", "tebi", "pebi", "exbi"];
/** A number of bytes; a default may also be text such as `"64KiB"`. */
export class MemorySizeParameter extends Parameter {
    type = "MEMORY_SIZE";
    parse(text) {
        const [, number, unit] = WITH_UNIT.exec(text.trim()) ?? [];
        const factor = unit === undefined ? undefined : bytesIn(unit);
        if (number === undefined || factor === undefined)
            this.refuse(text, "a size such as 64KiB or 10MB");
        const value = Math.trunc(Number(number) * factor);
        if (!Number.isSafeInteger(value) || value < 0)
            this.refuse(text, "a size within 2^53 - 1 bytes");
        return value;
    }
}
function bytesIn(unit) {
    if (["", "B", "b", "byte", "bytes"].includes(unit))
        return 1;
    const word = unit.replace(/bytes?$/, "");
    if (word !== unit) {
        if (NAMES.includes(word))
            return 1_000 ** (NAMES.indexOf(word) + 1);
        return BINARY_NAMES.includes(word) ? 1_024 ** (BINARY_NAMES.indexOf(word) + 1) : undefined;
    }
    const letter = unit[0];
    const power = LETTERS.indexOf(letter.toUpperCase()) + 1;
    const upper = letter === LETTERS[power - 1];
    if (power === 0)
        return undefined;
    if (unit.length === 1 || (upper && ["i", "iB"].includes(unit.slice(1))))
        return 1_024 ** power;
    return unit === "kB" || (upper && power > 1 && unit.slice(1) === "B") ? 1_000 ** power : undefined;
}
/** The values of a conversation's parameters. */
export class Config {
    #values;
    constructor(values) {
        this.#values = new Map(Object.entries(values));
    }
    /** The value of a declared parameter: a number, a boolean or a text; a duration in milliseconds, a size in bytes. */
    get(parameter) {
        const value = this.#values.get(parameter.key);
        if (value === undefined)
            throw new TypeError(`parameter ${parameter.key} is not one that this streamlet declared`);
        return value;
    }
    /** Every value, by key. */
    asObject() {
        return Object.fromEntries(this.#values);
    }
    /** The values for a streamlet's parameters: texts are parsed, defaults filled in. Throws TypeError naming every missing, unknown or bad one. */
    static resolve(parameters, values) {
        const problems = Object.keys(values).filter((key) => !parameters.some((p) => p.key === key)).map((key) => `parameter ${key}: unknown`);
        const resolved = {};
        for (const parameter of parameters) {
            const value = values[parameter.key] ?? parameter.defaultText;
            if (value === null) {
                problems.push(`parameter ${parameter.key}: required`);
                continue;
            }
            try {
                resolved[parameter.key] = parameter.parse(String(value));
            }
            catch (error) {
                problems.push(error.message);
            }
        }
        if (problems.length > 0)
            throw new TypeError(problems.join("; "));
        return new Config(resolved);
    }
}
