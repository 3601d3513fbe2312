"""What PROTOCOL.md's example needs of the msgpack package, so that its test needs no package."""

import struct

_SIZES = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4, 0xDC: 2, 0xDD: 4, 0xDE: 2, 0xDF: 4}
_NUMBERS = {0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q", 0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q"}


def packb(v):
    if v is None or isinstance(v, bool):
        return {None: b"\xc0", False: b"\xc2", True: b"\xc3"}[v]
    if isinstance(v, int):
        return struct.pack(">Bq", 0xD3, v)
    if isinstance(v, bytes):
        return struct.pack(">BI", 0xC6, len(v)) + v
    if isinstance(v, str):
        return struct.pack(">BI", 0xDB, len(v.encode())) + v.encode()
    if isinstance(v, (list, tuple)):
        return struct.pack(">BI", 0xDD, len(v)) + b"".join(map(packb, v))
    return struct.pack(">BI", 0xDF, len(v)) + b"".join(packb(k) + packb(e) for k, e in v.items())


def unpackb(data):
    return _unpack(data, 0)[0]


def _unpack(data, i):
    code, i = data[i], i + 1
    if code < 0x80 or code >= 0xE0:
        return code - (256 if code >= 0xE0 else 0), i
    if code in (0xC0, 0xC2, 0xC3):
        return {0xC0: None, 0xC2: False, 0xC3: True}[code], i
    if code in _NUMBERS:
        size = struct.calcsize(_NUMBERS[code])
        return struct.unpack(_NUMBERS[code], data[i : i + size])[0], i + size
    if code in _SIZES:
        n, i = int.from_bytes(data[i : i + _SIZES[code]], "big"), i + _SIZES[code]
    else:
        n = code & (0x1F if code >= 0xA0 else 0xF)
    if code in (0xC4, 0xC5, 0xC6):
        return data[i : i + n], i + n
    if 0xA0 <= code < 0xC0 or code in (0xD9, 0xDA, 0xDB):
        return data[i : i + n].decode(), i + n
    is_map = code < 0x90 or code in (0xDE, 0xDF)
    values = []
    for _ in range(2 * n if is_map else n):
        value, i = _unpack(data, i)
        values.append(value)
    return (dict(zip(values[::2], values[1::2])) if is_map else values), i
