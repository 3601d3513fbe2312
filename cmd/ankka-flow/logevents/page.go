package logevents

import (
	"fmt"
	"strings"
)

const preamble = `# Logs

<!-- Made from the table in cmd/ankka-flow/logevents: go test ./cmd/ankka-flow/logevents -rewrite -->

Logs go to stderr: as text on a terminal, as JSON, one object a line, elsewhere (` + "`--log-format`" + `, ` + "`FLOW_LOG_FORMAT`" + `).
` + "`--log-level`" + ` (` + "`FLOW_LOG_LEVEL`" + `) is info. Data never goes there: no line of ours has the key, the value or a header of a record, at
debug neither. Only what others say in words of their own is passed on as it is: what the process prints or gives as the reason of a
failure, and what a broker says of a refusal.

| level | means |
|---|---|
| ERROR | a person has to act |
| WARN | something is wrong; it is tried again or gone on without, and nobody has to act before it lasts |
| INFO | what one expects |
| DEBUG | for who looks for a mistake |

What may repeat for ever is limited. A stream that fails has one line a try (the failure, or the end of the process; none where the line of the Kafka client about a right that is missing has said why), and the tries
are a wait apart that grows up to ` + "`FLOW_RECONNECT_MAX_BACKOFF`" + `; the same traceback is shown once. A broker that is away is said once for each cause,
and another cause of it at most every 10 s; once that it is back. Commits and starts that do not get through are said once until they do, a
topic that may not be read or written once until it may, records that cannot be sent at most every 10 s for each kind of trouble, a quota once a minute for reading and for writing, a
group's refusal once for each code, a stall once. What belongs to something that is over is counted in
` + "`ankka_flow_stale_events_total`" + ` and not said.

Every line has ` + "`time`, `level`, `msg` and `event`" + `. The texts may change from version to version; events and keys do not.

## Events

`

// Page is docs/logs.md.
func Page() string {
	var b strings.Builder
	b.WriteString(preamble)
	b.WriteString("| event | levels | keys | meaning |\n|---|---|---|---|\n")
	for _, e := range Events {
		var names []string
		for _, l := range e.Levels {
			names = append(names, l.String())
		}
		keys := ""
		if len(e.Keys) > 0 {
			keys = "`" + strings.Join(e.Keys, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", e.Name, strings.Join(names, ", "), keys, e.Meaning)
	}
	b.WriteString("\n## Keys\n\nOne key means one thing, in every event. A line has those of its event that are known.\n\n")
	b.WriteString("| key | type | meaning |\n|---|---|---|\n")
	for _, a := range Attributes {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", a.Key, a.Type, a.Meaning)
	}
	return b.String()
}
