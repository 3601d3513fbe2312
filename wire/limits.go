package wire

const (
	// Version is the protocol version this package speaks, MAJOR.MINOR.
	Version = "1.0"

	// MaxFrame is the most bytes a frame's body may have: the N of its length,
	// the 4 bytes of the length not counted. A frame of exactly MaxFrame passes.
	MaxFrame = 4 << 20

	// MaxRecord is the most bytes a record may have as its array is encoded in
	// a frame, in both directions. A record of exactly MaxRecord passes. The
	// 64 KiB between it and MaxFrame hold what stands around the record.
	MaxRecord = MaxFrame - 64<<10

	// MaxInteger is the largest magnitude of an integer on the wire, 2^53 - 1:
	// what a double, and so every language's number, holds exactly.
	MaxInteger = 1<<53 - 1

	// MaxText is the most bytes of each text of a fail (message, kind, detail).
	// Longer text is cut, not refused: a failure must be reportable.
	MaxText = 64 << 10

	// MaxSeries is the most series of one report.
	MaxSeries = 1000

	// MaxDepth is how deep arrays and maps may nest, the message's own array
	// being the first. The messages themselves use five.
	MaxDepth = 32

	// DefaultMaxInFlight is a process's max_in_flight when its capabilities do
	// not say.
	DefaultMaxInFlight = 32

	// MaxHeld is the most bytes that the emits of one batch may hold before its
	// ack; beyond it the batch fails by name (HeldTooMuch).
	MaxHeld = 64 << 20
)
