package logevents

import "log/slog"

// Event is one value of the attribute "event".
type Event struct {
	// Name is the value; on a terminal, the column behind the level.
	Name string
	// Levels are those that its lines have, from the lowest.
	Levels []slog.Level
	// Keys are the attributes that its lines may have besides time, level, msg
	// and event; each is in Attributes.
	Keys []string
	// Meaning says what happened, and what a person is to do where one is needed.
	Meaning string
}

// Attribute is one key of a line.
type Attribute struct {
	Key, Type, Meaning string
}

var (
	debug = slog.LevelDebug
	info  = slog.LevelInfo
	warn  = slog.LevelWarn
	fault = slog.LevelError
)

func levels(l ...slog.Level) []slog.Level { return l }

// Events are in the order in which a run may meet them.
var Events = []Event{
	{"broker", levels(info, warn, fault), nil,
		"The embedded broker: where it is, whose it is, that it is taken over or has ended. WARN: a broker does not answer at the start and is asked again. ERROR: it does, and a password, a certificate, a port or a right is wrong; or the embedded broker's data cannot be opened"},
	{"process", levels(debug, info, warn, fault), nil,
		"The process was launched or has ended, with its exit code or signal; a signal was passed on to it. WARN: it ended unasked and is launched again; it printed to stdout; it left processes behind. ERROR: it cannot be launched, or with its end the run ends or waits for a save"},
	{"attach", levels(info, warn), nil,
		"Under `--attach`: the socket at which a program is waited for. WARN: a second one was sent away"},
	{"discovered", levels(info), nil,
		"The process said what it is: name, inlets, outlets"},
	{"refused", levels(fault), nil,
		"What the process declares and the configuration do not fit, a line for each problem"},
	{"topics", levels(info, warn, fault), nil,
		"Topics were made on the embedded broker, or on any that of dead letters. WARN: a topic is missing and is waited for, or has other partitions than asked for. ERROR: a right on it is missing"},
	{"input", levels(info), nil,
		"The file of `--input` was written to its topic, or was not because the topic has records"},
	{"ready", levels(info), nil,
		"The conversation runs and every inlet is subscribed"},
	{"committed", levels(info), nil,
		"How many records were committed since the start, how many were written, how many are behind: soon after everything is committed, otherwise every 10 s"},
	{"failed", levels(debug, warn, fault), nil,
		"The stream failed: a batch, the protocol, a time limit or a write; inlet, topic, partition and offset are in the text. WARN: it is tried again, after a wait that grows. ERROR: the run ends by it. DEBUG: a traceback that was shown already"},
	{"accused", levels(warn), nil,
		"The process ended, or a write was refused, with several batches that it may have been: all of them (20 at most), with topic, partition and first offset. They are tried one at a time until it is known; under `--watch` the next save is waited for"},
	{"convicted", levels(warn), []string{"inlet", "topic", "partition", "offset", "tries", "error"},
		"It is known which partition fails the stream: topic, partition and offset, how often the record there failed, killed the process or was not answered, and when it is tried again. The others carry on; a person has to mend the streamlet or the record"},
	{"acquitted", levels(info), nil,
		"A convicted partition has committed past what failed, and goes on as before"},
	{"waiting", levels(info), nil,
		"How long the next try is waited for, or that a save is waited for"},
	{"stalled", levels(warn), []string{"warning", "pipeline", "streamlet", "inlet", "topic", "partition", "offset", "tries", "error"},
		"A partition has had something to commit for `FLOW_STALL_WARNING_AFTER` and could not; once for each stall. The line to be alerted by: where it lasts, a person has to mend the process or its records"},
	{"group", levels(info, warn), []string{"inlet", "error"},
		"WARN: commits have not got through for 5 s, or a group could not be left. INFO: commits get through again"},
	{"partition", levels(debug), nil,
		"A partition was assigned, revoked, suspended or lost"},
	{"kafka", levels(debug, info, warn, fault), []string{"inlet", "topic", "partition", "offset", "to", "group", "generation", "kept", "instance", "doing", "retry_in", "before", "now", "broker", "error"},
		"What the Kafka client meets: brokers away and back, generations of groups, topics that cannot be read yet, offsets outside the log. WARN: it goes on by itself. ERROR: a right, an address or a name is wrong, and a person has to mend it"},
	{"output", levels(debug, info, warn, fault), []string{"process", "fields"},
		"A line that the process wrote to stderr, or logged through its SDK with the level it chose. The only lines whose text is not ours: what the process prints of its records is in them. On a terminal its name stands in place of the event"},
	{"report", levels(warn), []string{"metric"},
		"A number that the process reported is not shown; said once"},
	{"watch", levels(debug), nil,
		"A watched file changed"},
	{"reload", levels(info), nil,
		"The process is being replaced, and why"},
	{"state", levels(warn), nil,
		"The state directory cannot be used; once for each cause"},
	{"status", levels(debug, warn), nil,
		"The metrics and probes: WARN where they cannot be answered, DEBUG what the HTTP server says of its clients"},
	{"stopping", levels(debug, info, warn), nil,
		"The stop has begun or got further. WARN: the producer was left with writes on the way; they are not committed"},
	{"stopped", levels(info), nil,
		"The run ended well, and by what"},
}

// Attributes are what the keys mean, in every event the same.
var Attributes = []Attribute{
	{"before", "number", "how many partitions a topic had"},
	{"broker", "string", "a broker's host:port"},
	{"doing", "string", "the request that was refused"},
	{"error", "string", "the cause, in words"},
	{"fields", "object", "the fields of a line that the process logged, by its names"},
	{"generation", "number", "a group's generation"},
	{"group", "string", "a consumer group"},
	{"inlet", "string", "an inlet's port"},
	{"instance", "string", "a static member's name (group.instance.id)"},
	{"kept", "number", "how many partitions are kept from the generation before"},
	{"metric", "string", "the name under which a number was reported"},
	{"now", "number", "how many partitions a topic has"},
	{"offset", "number", "an offset; in `stalled`, the next to be committed; in `convicted`, that of the record that failed, or of the first one of the batch"},
	{"partition", "number", "a partition"},
	{"pipeline", "string", "the pipeline's name"},
	{"process", "string", "the streamlet's name, before discovery the program's"},
	{"retry_in", "string", "when it is tried again, as 1m30s"},
	{"streamlet", "string", "the streamlet's name"},
	{"to", "number", "the offset from which it goes on"},
	{"topic", "string", "a topic"},
	{"tries", "number", "how often the batch was delivered; in `convicted`, how often what is at the offset failed"},
	{"warning", "string", "`PartitionStalled`, by which Ankka's tools find the line"},
}
