package config

import (
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"

	"ankka-flow/cmd/ankka-flow/security"
	flowkafka "ankka-flow/delivery/kafka"
	"ankka-flow/delivery/kafka/group"
)

// java is what a section of Java names comes to: name to value.
type java map[string]value

func (j java) text(name string) string { return j[name].text }

func (j java) milliseconds(name string) time.Duration {
	n, err := strconv.Atoi(j[name].text)
	if err != nil {
		return 0 // unset, or reported when it was put
	}
	return time.Duration(n) * time.Millisecond
}

// section gathers the values below a path.
func (l *loader) section(path string) java {
	j := java{}
	for p, v := range l.values {
		if name, ok := strings.CutPrefix(p, path+"."); ok {
			j[name] = v
		}
	}
	return j
}

// over is the section with another's values on top.
func (j java) over(base java) java {
	all := maps.Clone(base)
	maps.Copy(all, j)
	return all
}

// differs is the first name whose text is another in the other section, or "".
func (j java) differs(other java) string {
	for _, name := range slices.Sorted(maps.Keys(j.over(other))) {
		a, inA := j[name]
		b, inB := other[name]
		if inA != inB || a.text != b.text {
			return name
		}
	}
	return ""
}

// shared is a section that the top and each port may have, and which must come to
// the same for all that have it.
func (l *loader) shared(section, why string) java {
	top := l.section(section)
	chosen, have := top, len(top) > 0
	for _, port := range l.ports() {
		own := l.section(port + "." + section)
		if len(own) == 0 {
			continue
		}
		own = own.over(top)
		if !have {
			chosen, have = own, true
			continue
		}
		if name := own.differs(chosen); name != "" {
			v, ok := own[name]
			if !ok {
				v = chosen[name]
			}
			l.problems.at(v.origin, "%s.%s: %s differs from what is set elsewhere; %s", port, section, name, why)
		}
	}
	return chosen
}

// ports are the ports of the file, as inlets.in, those of inlets first.
func (l *loader) ports() []string {
	var ports []string
	for _, path := range l.paths() {
		parts := strings.SplitN(path, ".", 3)
		if len(parts) == 3 && (parts[0] == "inlets" || parts[0] == "outlets") {
			ports = append(ports, parts[0]+"."+parts[1])
		}
	}
	return slices.Compact(ports)
}

const oneCluster = "one supervisor speaks to one cluster: put it at the top, or run a second one"

// servers is the path of the addresses that hold.
func (l *loader) servers() string {
	const name = "bootstrap.servers"
	chosen := name
	if l.values[name].origin.rank > fromFile {
		return chosen
	}
	for _, port := range l.ports() {
		path := port + "." + name
		v, ok := l.values[path]
		switch {
		case !ok:
		case l.text(chosen) == "":
			chosen = path
		case v.text != l.text(chosen):
			l.problems.at(v.origin, "%s: it differs from %s (%s); %s", path, chosen, l.values[chosen].origin.place(), oneCluster)
		}
	}
	return chosen
}

// resolveCluster fills what it takes to connect.
func (l *loader) resolveCluster(s *Settings) {
	servers := l.servers()
	brokers, embedded := l.values[servers], l.values["embedded"]
	conn := l.shared("connection-config", oneCluster)
	s.ClientID = conn.text("client.id")
	s.RequestTimeout, s.DialTimeout = conn.milliseconds("request.timeout.ms"), conn.milliseconds("socket.connection.setup.timeout.ms")
	sec := l.security(conn)
	s.Embedded = s.Embedded && brokers.origin.rank <= embedded.origin.rank
	if s.Embedded && brokers.text != "" && brokers.origin.rank == embedded.origin.rank {
		l.problems.add(embedded.origin, " and %s name two brokers; give one", brokers.origin.place())
	}
	if s.Embedded {
		return
	}
	s.Brokers, s.BrokersInDoubt = l.items(servers, ","), l.brokersInDoubt
	s.Security = sec
	if l.badConnection {
		return
	}
	var problems []string
	s.TLS, s.SASL, problems = sec.Client()
	for _, p := range problems {
		l.problems.at(l.blame(conn, p), "connection-config: %s", p)
	}
	if len(s.Brokers) == 0 && !l.brokersInDoubt && (s.TLS != nil || s.SASL != nil) {
		for _, name := range slices.Sorted(maps.Keys(conn)) {
			l.problems.at(conn[name].origin, "connection-config: it says how to connect, but no broker is named: set bootstrap.servers")
			return
		}
	}
}

// blame finds the line of the setting that a problem names first.
func (l *loader) blame(conn java, problem string) origin {
	best, at := origin{rank: fromFile, name: l.path, line: 1}, len(problem)
	for name, v := range conn {
		if i := strings.Index(problem, name); i >= 0 && (i < at || i == at && v.origin.line > best.line) {
			best, at = v.origin, i
		}
	}
	if at == len(problem) {
		for _, v := range conn { // the section, where the setting is missing
			if best.line == 1 || v.origin.line < best.line {
				best = v.origin
			}
		}
	}
	return best
}

// security fills the settings of package security: contents in place of files.
func (l *loader) security(conn java) *security.Settings {
	s := &security.Settings{
		Protocol: conn.text("security.protocol"), Mechanism: conn.text("sasl.mechanism"),
		Username: conn.text("sasl.username"), Password: conn.text("sasl.password"),
		Truststore: l.pem(conn, "ssl.truststore.location", "ssl.truststore.certificates"),
		Key:        []byte(conn.text("ssl.keystore.key")), KeyPassword: conn.text("ssl.key.password"),
	}
	s.Certificate = l.pem(conn, "ssl.keystore.location", "ssl.keystore.certificate.chain")
	if v, ok := conn["ssl.endpoint.identification.algorithm"]; ok {
		s.SkipHostname = v.text == ""
	}
	if key, ok := conn["ssl.keystore.key"]; ok && conn.text("ssl.keystore.location") != "" {
		l.problems.at(key.origin, "ssl.keystore.key: the key is in the file of ssl.keystore.location; keep one of them")
	}
	line, ok := conn["sasl.jaas.config"]
	if !ok {
		return s
	}
	if s.Username != "" || s.Password != "" {
		l.problems.at(line.origin, "sasl.jaas.config and sasl.username or sasl.password both say who we are; keep one")
	}
	login, problem := parseJAAS(line.text)
	switch scram := strings.HasPrefix(s.Mechanism, "SCRAM"); {
	case problem != "":
		l.problems.at(line.origin, "sasl.jaas.config: %s", problem)
	case s.Mechanism != "" && login.scram != scram:
		l.problems.at(line.origin, "sasl.jaas.config: its login module is not that of sasl.mechanism %s", s.Mechanism)
	}
	s.Username, s.Password = login.username, login.password
	if problem != "" { // it was reported; nothing more about the user is missing
		s.Username, s.Password = "-", "-"
	}
	return s
}

// pem is the content of a PEM file, or the text in its place.
func (l *loader) pem(conn java, location, text string) []byte {
	file, inFile := conn[location]
	inline, inText := conn[text]
	switch {
	case inFile && inText:
		l.problems.at(inline.origin, "%s: %s is set too (line %d); keep one", text, location, file.origin.line)
	case inFile:
		content, err := readBounded(file.text)
		if err != nil {
			l.problems.at(file.origin, "%s: %q: %s", location, file.text, reason(err))
			return nil
		}
		return content
	case inText:
		if _, err := os.Stat(inline.text); err == nil && !strings.Contains(inline.text, "\n") {
			l.problems.at(inline.origin, "%s: it is the PEM text itself; write %s for a file", text, location)
		}
	}
	return []byte(inline.text)
}

// resolveConsumers fills how each inlet reads.
func (l *loader) resolveConsumers(s *Settings) {
	top := l.section("consumer-config")
	s.Consumer = l.consumer(top, "")
	for _, path := range l.ports() {
		port, ok := strings.CutPrefix(path, "inlets.")
		if !ok {
			continue
		}
		own := l.section(path + ".consumer-config")
		if id, ok := own["client.id"]; ok && s.ClientIDs[port] != "" && s.ClientIDs[port] != id.text {
			l.problems.at(id.origin, "%s: client.id differs from the inlet's client-id; keep one", path)
		}
		s.Inlets[port] = l.consumer(own.over(top), s.ClientIDs[port])
	}
}

func (l *loader) consumer(j java, clientID string) Consumer {
	c := Consumer{
		ClientID: clientID, InstanceID: j.text("group.instance.id"), SessionTimeout: j.milliseconds("session.timeout.ms"),
		ReadUncommitted: j.text("isolation.level") == "read_uncommitted",
	}
	if c.ClientID == "" {
		c.ClientID = j.text("client.id")
	}
	if session := l.values["session-timeout"]; session.text != "" {
		if v, ok := j["session.timeout.ms"]; ok && session.origin.rank == fromFile && l.duration("session-timeout") != c.SessionTimeout {
			l.problems.at(v.origin, "session.timeout.ms differs from session-timeout (line %d); keep one", session.origin.line)
		}
		c.SessionTimeout = l.duration("session-timeout")
	}
	switch j.text("auto.offset.reset") {
	case "earliest":
		c.Reset = flowkafka.ResetEarliest
	case "latest":
		c.Reset, c.StartLatest = flowkafka.ResetLatest, true
	}
	v := j["partition.assignment.strategy"]
	for _, name := range strings.Split(v.text, ",") {
		switch name[strings.LastIndexByte(name, '.')+1:] {
		case "":
		case group.CooperativeSticky, "CooperativeStickyAssignor":
			c.Assignors = append(c.Assignors, group.CooperativeSticky)
		case group.Range, "RangeAssignor":
			c.Assignors = append(c.Assignors, group.Range)
		default:
			l.problems.at(v.origin, "partition.assignment.strategy: %s: it is cooperative-sticky, range or both", v.shown)
		}
	}
	return c
}

// resolveProducer fills how outlets write: there is one producer for all.
func (l *loader) resolveProducer(s *Settings) {
	j := l.shared("producer-config", "one producer writes to all outlets: put it at the top")
	s.Producer.Compression = map[string]kafka.Compression{
		"gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd,
	}[j.text("compression.type")]
	for _, name := range []string{"batch.size", "max.request.size"} {
		if n, ok := parseSize(j.text(name)); ok && (s.Producer.MaxBatchBytes == 0 || int(n) < s.Producer.MaxBatchBytes) {
			s.Producer.MaxBatchBytes = int(n)
		}
	}
	v, ok := j["delivery.timeout.ms"]
	if !ok {
		return
	}
	switch write := l.values["write-timeout"]; {
	case write.origin.rank == fromDefault:
		s.Timings.Write = j.milliseconds("delivery.timeout.ms")
		l.values["write-timeout"] = value{text: s.Timings.Write.String(), origin: v.origin}
	case write.origin.rank == fromFile && s.Timings.Write != j.milliseconds("delivery.timeout.ms"):
		l.problems.at(v.origin, "delivery.timeout.ms differs from write-timeout (line %d); keep one", write.origin.line)
	}
}
