/** Write streamlets for ankka-flow. Importing this takes stdin and stdout for the protocol in a program that ankka-flow launched. */
import "./takeover.js";

export type { Labels } from "./batchrun.js";
export type { Context, StatusOptions } from "./context.js";
export { VERSION } from "./descriptor.js";
export { RecordTooLargeError } from "./emitbuffer.js";
export { PROTOCOL_VERSION } from "./frames.js";
export {
  BooleanParameter,
  Config,
  DoubleParameter,
  DurationParameter,
  IntegerParameter,
  MemorySizeParameter,
  Parameter,
  StringParameter,
  type ConfigValue,
} from "./parameters.js";
export { JsonInlet, JsonOutlet, type Bytes, type Emit, type EmitOptions, type EmittedHeader } from "./ports.js";
export type { Batch, FlowRecord, Header } from "./records.js";
export { serve, type ServeOptions } from "./serve.js";
export { Streamlet, type Emits, type Fields, type LogLevel, type Result } from "./streamlet.js";
