/** Write streamlets for ankka-flow. Importing this takes stdin and stdout for the protocol in a program that ankka-flow launched. */
import "./takeover.js";
export { VERSION } from "./descriptor.js";
export { RecordTooLargeError } from "./emitbuffer.js";
export { PROTOCOL_VERSION } from "./frames.js";
export { BooleanParameter, Config, DoubleParameter, DurationParameter, IntegerParameter, MemorySizeParameter, Parameter, StringParameter, } from "./parameters.js";
export { JsonInlet, JsonOutlet } from "./ports.js";
export { serve } from "./serve.js";
export { Streamlet } from "./streamlet.js";
