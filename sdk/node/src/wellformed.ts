/**
 * Checks that bytes are one msgpack value as the protocol uses it, before anything is built of them: what a header
 * announces must be there, so that no length makes the decoder allocate for what never came; integers must be exact in
 * JavaScript; extension types and maps with other keys than text have no place. It skips over what text and bytes
 * hold, so a record costs a few steps.
 */

/** The supervisor's bytes or messages make no sense. It ends the process; no handler sees it. */
export class ProtocolError extends Error {
  override readonly name = "ProtocolError";
}

/** How deep arrays and maps may lie in each other; no message needs more than 5. */
const MAX_DEPTH = 64;

/** How many bytes hold the length behind a code from 0xc4 on; 0: the code has none. */
const LENGTH_BYTES = codes({ 0xc4: 1, 0xc5: 2, 0xc6: 4, 0xd9: 1, 0xda: 2, 0xdb: 4, 0xdc: 2, 0xdd: 4, 0xde: 2, 0xdf: 4 });
/** How many bytes a number takes behind its code. */
const NUMBER_BYTES = codes({ 0xca: 4, 0xcb: 8, 0xcc: 1, 0xcd: 2, 0xce: 4, 0xcf: 8, 0xd0: 1, 0xd1: 2, 0xd2: 4, 0xd3: 8 });

function codes(sizes: Readonly<Record<number, number>>): Uint8Array {
  return Uint8Array.from({ length: 256 }, (_, code) => sizes[code] ?? 0);
}

/** Throws ProtocolError for bytes that are not exactly one such value. */
export function checkValue(bytes: Uint8Array): void {
  // What is due in the arrays and maps around: twice the values, plus 1 in a map, whose keys are due at odd places.
  const around: number[] = [];
  let at = 0;
  let due = 2;
  for (;;) {
    while (due < 2) {
      const outer = around.pop();
      if (outer === undefined) {
        if (at < bytes.length) throw new ProtocolError(`a frame with ${bytes.length - at} bytes behind its message`);
        return;
      }
      due = outer;
    }
    due -= 2;
    if (at >= bytes.length) throw endsEarly(bytes, at, 1);
    const code = bytes[at++] as number;
    if ((due & 3) === 3 && !isText(code)) throw new ProtocolError("a frame with a map's key that is no text");
    let length = 0;
    if (code <= 0x7f || code >= 0xe0) continue;
    if (code < 0xa0) {
      length = code & 0x0f;
    } else if (code < 0xc0) {
      at += code & 0x1f;
      if (at > bytes.length) throw endsEarly(bytes, at - (code & 0x1f), code & 0x1f);
      continue;
    } else {
      if (code === 0xc0 || code === 0xc2 || code === 0xc3) continue;
      const size = NUMBER_BYTES[code] as number;
      if (size > 0) {
        if (at + size > bytes.length) throw endsEarly(bytes, at, size);
        if (size === 8) checkLong(bytes, at, code);
        at += size;
        continue;
      }
      const width = LENGTH_BYTES[code] as number;
      if (width === 0) throw new ProtocolError(`a frame with the byte 0x${code.toString(16)}, which begins no value of the protocol (extension types are not used)`);
      if (at + width > bytes.length) throw endsEarly(bytes, at, width);
      for (const end = at + width; at < end; at++) length = length * 256 + (bytes[at] as number);
      if (code < 0xdc) {
        if (length > bytes.length - at) throw endsEarly(bytes, at, length);
        at += length;
        continue;
      }
    }
    const isMap = code < 0x90 || code >= 0xde;
    const values = isMap ? 2 * length : length;
    if (values > bytes.length - at) throw endsEarly(bytes, at, values);
    if (around.length === MAX_DEPTH) throw new ProtocolError(`a frame that is nested deeper than ${MAX_DEPTH}`);
    around.push(due);
    due = 2 * values + (isMap ? 1 : 0);
  }
}

function isText(code: number): boolean {
  return (code >= 0xa0 && code < 0xc0) || (code >= 0xd9 && code <= 0xdb);
}

/** Refuses an integer of 64 bits that a JavaScript number does not hold exactly. */
function checkLong(bytes: Uint8Array, at: number, code: number): void {
  if (code === 0xcb) return;
  const view = new DataView(bytes.buffer, bytes.byteOffset + at, 8);
  const high = code === 0xcf ? view.getUint32(0) : view.getInt32(0);
  if (Number.isSafeInteger(high * 2 ** 32 + view.getUint32(4))) return;
  throw new ProtocolError(`a frame with the integer ${code === 0xcf ? view.getBigUint64(0) : view.getBigInt64(0)}; integers stay within 2^53 - 1 of 0`);
}

function endsEarly(bytes: Uint8Array, at: number, due: number): ProtocolError {
  return new ProtocolError(`a frame that ends early: ${due} bytes or values are due at byte ${at}, ${bytes.length - at} are left`);
}
