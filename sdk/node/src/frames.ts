/** Frames without IO: a length of 4 bytes, then one msgpack array [kind, ...]. */
import { inspect } from "node:util";
import { Decoder, Encoder } from "@msgpack/msgpack";
import { checkValue, ProtocolError } from "./wellformed.js";

export const PROTOCOL_VERSION = "1.0";
/** The longest body of a frame, in bytes. */
export const MAX_FRAME_BYTES = 4_194_304;
/** The largest record, in bytes, as its array is encoded in a frame. */
export const MAX_RECORD_BYTES = 4_128_768;
/** The most series in one report. */
export const MAX_SERIES = 1_000;
/** The longest text of a fail or a status, in UTF-16 units; the supervisor cuts at as many bytes. */
export const MAX_TEXT = 65_536;

/** A message: its kind and the elements behind it. */
export type Message = readonly [kind: string, ...rest: unknown[]];

const encoder = new Encoder({ ignoreUndefined: true });
// The decoder makes room for as many elements as a length claims before it looks for them: no more than a frame has bytes.
const decoder = new Decoder({ maxArrayLength: MAX_FRAME_BYTES, maxMapLength: MAX_FRAME_BYTES, maxStrLength: MAX_FRAME_BYTES, maxBinLength: MAX_FRAME_BYTES });

/** The message as a frame, its length in front. */
export function encodeFrame(message: Message): Buffer {
  const body = encoder.encodeSharedRef(message);
  const frame = Buffer.allocUnsafe(4 + body.length);
  frame.writeUInt32BE(body.length, 0);
  frame.set(body, 4);
  return frame;
}

/** The message in a frame's body. Its bytes are views of `body`. Throws ProtocolError where the body is no array that begins with a text. */
export function decodeBody(body: Uint8Array): Message {
  checkValue(body);
  const message = decoded(body);
  if (!Array.isArray(message) || typeof message[0] !== "string") {
    throw new ProtocolError("a frame that is no message: an array that begins with its kind");
  }
  return message as unknown as Message;
}

function decoded(body: Uint8Array): unknown {
  try {
    return decoder.decode(body);
  } catch (error) {
    throw new ProtocolError(`a frame that cannot be decoded: ${(error as Error).message}`);
  }
}

/** What to tell people of an error while the supervisor's input was read. */
export function faultOf(error: unknown): string {
  return error instanceof ProtocolError ? `the supervisor broke the protocol: ${error.message}` : `a mistake in the SDK: ${inspect(error)}`;
}

/** Cuts a stream of bytes into the bodies of frames, each in an ArrayBuffer of its own, so that it can be given to another thread without a copy. */
export class FrameCutter {
  readonly #length = Buffer.alloc(4);
  #lengthRead = 0;
  #body: Uint8Array<ArrayBuffer> | null = null;
  #bodyRead = 0;

  /** What is wrong with an input that ends here: it broke off within a frame. Null: nothing. */
  brokenOff(): string | null {
    const begun = this.#body === null ? this.#lengthRead : 4 + this.#bodyRead;
    return begun === 0 ? null : faultOf(new ProtocolError(`the input ended ${begun} bytes into a frame`));
  }

  /** Takes the next bytes and calls `each` for every body that is complete. Throws at a length that may not be. */
  push(chunk: Uint8Array, each: (body: Uint8Array<ArrayBuffer>) => void): void {
    let at = 0;
    while (at < chunk.length) {
      if (this.#body === null) {
        this.#length[this.#lengthRead++] = chunk[at++] as number;
        if (this.#lengthRead < 4) continue;
        const size = this.#length.readUInt32BE(0);
        if (size < 1 || size > MAX_FRAME_BYTES) throw new ProtocolError(`a frame of ${size} bytes; 1 to ${MAX_FRAME_BYTES} are allowed`);
        this.#body = new Uint8Array(size);
        this.#bodyRead = this.#lengthRead = 0;
      }
      const body = this.#body;
      const part = chunk.subarray(at, at + body.length - this.#bodyRead);
      body.set(part, this.#bodyRead);
      this.#bodyRead += part.length;
      at += part.length;
      if (this.#bodyRead === body.length) {
        this.#body = null;
        each(body);
      }
    }
  }
}
