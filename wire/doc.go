// Package wire is the protocol between the supervisor and its process, version
// 1.0: bytes <-> messages, limits, the descriptor. PROTOCOL.md beside this file
// is its normative text; testdata/golden holds every message as bytes, read by
// this package's tests and by every SDK's.
//
// It decides what a frame says and whether it may be said at all (types, sizes,
// ranges): whatever it refuses is a *Violation, whose text is in PROTOCOL.md's
// table. It does not decide when something may be said: the caller knows which
// batches are with the process and which state the conversation is in, and
// builds those violations with NotInFlight, UnknownOutlet, IndexOutOfRange,
// OutOfPlace and HeldTooMuch, so that their texts stand in the same table.
//
// It must not touch anything outside itself: no clock, no goroutine, no global
// state. Only Reader does IO, on the io.Reader it is given, in the goroutine
// that calls Next. There is no goroutine in this package.
//
// # Who encodes and decodes what
//
// Records are encoded and decoded by hand (records.go, batch.go): 4 to 10 times
// faster than msgpack's Encoder and Decoder, and without an allocation a record;
// the benchmarks show both in one run. Everything else is encoded by
// vmihailenco/msgpack, with sorted keys, so that equal messages give equal bytes.
//
// Everything is decoded by one strict cursor (cursor.go). msgpack's Decoder was
// rejected there, for it takes bin for str, str for bin, float for int and nil
// for everything, and this protocol refuses all four: R8 (null and empty are
// different) hangs on it. The tests hold both decoders beside each other.
//
// # Bytes and who owns them
//
// What is parsed aliases the frame's body where it is bytes (keys, values,
// header names and values) and copies it where it is text. Whoever keeps a
// record keeps the frame it came in.
package wire
