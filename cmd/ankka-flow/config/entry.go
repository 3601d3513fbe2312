package config

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// fileSuffix ends a key whose text is in a file, as sasl.password-file.
const fileSuffix = "-file"

var portName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}$`)

// at is the origin of an entry.
func (l *loader) at(e entry) origin { return origin{rank: fromFile, name: l.path, line: e.line} }

// bad notes that a key of the file has no good text.
func (l *loader) bad(path string) {
	l.brokersInDoubt = l.brokersInDoubt || strings.HasSuffix(path, "bootstrap.servers")
	l.badConnection = l.badConnection || strings.Contains("."+path, ".connection-config.")
}

// takeEntry puts one value of the file, or says why it cannot be.
func (l *loader) takeEntry(e entry) {
	e.path = shortError(e.path)
	if (e.null || e.section) && isSection(e.path) {
		return // nothing is set there
	}
	k, problem := keyOf(e.path)
	path, fromText := e.path, false
	if k == nil {
		// A key with -file behind it; for a parameter, whose name may end so, .file.
		base, ok := strings.CutSuffix(e.path, fileSuffix)
		if strings.HasPrefix(e.path, "config.") {
			base, ok = strings.CutSuffix(e.path, ".file")
		}
		if of, why := keyOf(base); ok && (of != nil || why != "") {
			k, problem, path, fromText = of, why, base, true
		}
	}
	switch {
	case problem != "":
		l.problems.at(l.at(e), "%s: %s", path, problem)
	case k == nil:
		l.unknownKey(e)
	case e.null:
		l.problems.at(l.at(e), "%s: it has no value; give it one or take the line out", e.path)
	case e.section || e.sequence && k.Kind != List && k.Kind != Lines || e.sequence && fromText:
		l.problems.at(l.at(e), "%s: it is one %s, no list or map", e.path, k.Kind)
	case fromText:
		l.takeText(k, path, e)
	default:
		l.takeValue(k, path, e)
	}
}

// keyOf is the key of a path of the file, or why it is refused. Neither: there is
// no such key.
func keyOf(path string) (*Key, string) {
	section, name := javaSection(path)
	if section == 0 {
		return keyOfPath(path), ""
	}
	j := javaKey(name)
	switch {
	case j == nil:
		return nil, ""
	case j.In == 0:
		return nil, "it is not supported: " + j.Meaning
	case j.In&section == 0 && section == InConnection:
		return nil, fmt.Sprintf("it belongs in %s", j.In.sections())
	case j.In&section == 0 && j.In&InConnection != 0:
		return nil, fmt.Sprintf("it belongs in %s: one connection serves reading and writing", j.In.sections())
	case j.In&section == 0:
		return nil, fmt.Sprintf("it belongs in %s", j.In.sections())
	}
	return j.key(), ""
}

// javaSection splits a path in a section of Java names: the section, and the name.
func javaSection(path string) (Scope, string) {
	rest := path
	inlet, outlet := strings.HasPrefix(path, "inlets."), strings.HasPrefix(path, "outlets.")
	if inlet || outlet {
		parts := strings.SplitN(path, ".", 3)
		if len(parts) < 3 {
			return 0, ""
		}
		rest = parts[2]
	}
	for _, one := range scopes {
		if name, ok := strings.CutPrefix(rest, one.section+"."); ok && !(inlet && one.scope == InProducer) && !(outlet && one.scope == InConsumer) {
			return one.scope, name
		}
	}
	return 0, ""
}

// takeText puts the text of a file that a -file key names, without its last
// newline.
func (l *loader) takeText(k *Key, path string, e entry) {
	name, ok := l.replaced(k, e, e.texts[0])
	if !ok {
		return
	}
	file := l.beside(name.text)
	text, err := readBounded(file)
	if err != nil {
		l.problems.at(l.at(e), "%s: %s: %s", e.path, strconv.Quote(file), reason(err))
		l.bad(path)
		return
	}
	o := l.at(e)
	o.file = file
	out := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	l.place(k, path, e, value{text: out, shown: "the text of " + file, origin: o})
}

// takeValue puts what stands in the file.
func (l *loader) takeValue(k *Key, path string, e entry) {
	var texts, shown []string
	o := l.at(e)
	for _, raw := range e.texts {
		v, ok := l.replaced(k, e, raw)
		if !ok {
			return
		}
		if k.Kind == Path || k.Kind == Lines {
			v.text = l.beside(v.text)
		}
		texts, shown = append(texts, v.text), append(shown, raw)
		o.variables = append(o.variables, v.origin.variables...)
	}
	v := value{shown: strconv.Quote(strings.Join(shown, ",")), origin: o}
	switch k.Kind {
	case List:
		v.text = list(texts)
	case Lines:
		v.text = strings.Join(texts, "\n")
	default:
		v.text = texts[0]
	}
	l.place(k, path, e, v)
}

// replaced is a text with its ${...}. In a JAAS line a value stands between quotes,
// so what would end them there is escaped.
func (l *loader) replaced(k *Key, e entry, raw string) (value, bool) {
	lookup := l.lookup
	if strings.HasSuffix(e.path, "sasl.jaas.config") && strings.ContainsAny(raw, `"'`) {
		lookup = func(name string) (string, bool) {
			text, ok := l.lookup(name)
			return strings.NewReplacer(`\`, `\\`, `"`, `\"`, `'`, `\'`).Replace(text), ok
		}
	}
	text, names, problems := interpolate(raw, lookup)
	for _, p := range problems {
		l.problems.at(l.at(e), "%s: %s", e.path, p)
		l.bad(e.path)
	}
	o := l.at(e)
	o.variables = names
	return value{text: text, shown: strconv.Quote(raw), origin: o}, len(problems) == 0
}

// place judges a value of the file and puts it.
func (l *loader) place(k *Key, path string, e entry, v value) {
	if k.Secret || secretName(path) {
		v.shown = hiddenText
	}
	if old, ok := l.values[path]; ok && old.origin.rank == fromFile {
		l.problems.at(v.origin, "%s is also set in line %d; keep one", e.path, old.origin.line)
		return
	}
	if problem := k.judgeAll(v.text); problem != "" {
		l.problems.at(v.origin, "%s: %s: %s", e.path, v.shown, problem)
		l.bad(path)
	}
	v.text = k.normal(v.text)
	l.put(path, v)
}

// secretWords in a parameter's name hide its value; of the name only the letters
// count, so that api-key, api_key and apiKey are one.
var secretWords = []string{
	"password", "passwd", "passphrase", "pwd", "secret", "token", "credential", "authorization", "bearer", "connectionstring",
	"apikey", "privatekey", "accesskey", "accountkey", "signingkey", "encryptionkey",
}

func secretName(path string) bool {
	name, ok := strings.CutPrefix(path, "config.")
	if !ok {
		return false
	}
	name = fold(name)
	for _, w := range secretWords {
		if strings.Contains(name, w) {
			return true
		}
	}
	return false
}

// isSection reports whether a path holds keys, so that it may be empty.
func isSection(path string) bool {
	under := func(pattern string) bool {
		want, have := strings.Split(pattern, "."), strings.Split(path, ".")
		if len(have) >= len(want) {
			return false
		}
		return matches(strings.Join(want[:len(have)], "."), path)
	}
	for i := range Keys {
		if k := &Keys[i]; k.Section != "" && under(k.Path()) && !matches(k.Name, path) {
			return true
		}
	}
	_, name := javaSection(path + ".x")
	return name == "x"
}

// unknownKey reports a key that there is none of, with the nearest.
func (l *loader) unknownKey(e entry) {
	if name, ok := strings.CutPrefix(e.path, errorsSection+"."); ok { // names with dots in them, one the beginning of another
		_, names := sectionOf(e.path)
		l.problems.at(l.at(e), "%s: there is no such key%s", e.path, didYouMean(name, names))
		return
	}
	if isSection(e.path) {
		l.problems.at(l.at(e), "%s: it has keys below it, such as %s", e.path, example(e.path))
		return
	}
	l.brokersInDoubt = l.brokersInDoubt || strings.Contains(fold(e.path), "bootstrap") || strings.Contains(fold(e.path), "broker")
	section, names := sectionOf(e.path)
	rest := strings.TrimPrefix(strings.TrimPrefix(e.path, section), ".")
	hint := didYouMean(rest, names)
	in, _ := javaSection(e.path)
	j := javaKey(rest)
	if first, _, more := strings.Cut(rest, "."); hint == "" && more && in == 0 && j == nil {
		var firsts []string
		for _, n := range names {
			f, _, _ := strings.Cut(n, ".")
			firsts = append(firsts, f)
		}
		rest, hint = first, didYouMean(first, firsts)
	}
	whole := strings.TrimPrefix(section+"."+rest, ".")
	if l.unknown[whole] {
		return
	}
	l.unknown[whole] = true
	switch {
	case j != nil && j.In == 0:
		hint = ", and in a section of the Java client's names neither: " + j.Meaning
	case j != nil:
		hint = "; it is a name of the Java client's, and belongs in " + j.In.sections()
	case strings.HasPrefix(section, "inlets.") && strings.HasPrefix(rest, "producer-config"):
		hint = "; an inlet only reads: producer-config belongs to an outlet or to the top"
	case strings.HasPrefix(section, "outlets.") && (strings.HasPrefix(rest, "consumer-config") || rest == "group" || strings.HasPrefix(rest, "batch")):
		hint = "; an outlet only writes: that belongs to an inlet"
	}
	l.problems.at(l.at(e), "%s: there is no such key%s", whole, hint)
}

// aboveIt finds a key that holds one value above a path.
func aboveIt(path string) string {
	for i := len(path) - 1; i > 0; i-- {
		if path[i] != '.' {
			continue
		}
		whole, _ := keyOf(path)
		if k, _ := keyOf(path[:i]); k != nil && whole == nil && k.Section != errorsSection && !(k.Section == "config" && path[i:] == ".file") {
			return path[:i]
		}
	}
	return ""
}

// sectionOf is the innermost section that a path is in, and the names there.
func sectionOf(path string) (section string, names []string) {
	if in, name := javaSection(path); in != 0 {
		for i := range JavaKeys {
			names = append(names, JavaKeys[i].Name)
		}
		return strings.TrimSuffix(path, "."+name), names
	}
	parts := strings.SplitN(path, ".", 3)
	for i := range Keys {
		k := &Keys[i]
		if k.Name != "" && len(parts) == 3 && strings.HasPrefix(k.Section, parts[0]+".<") {
			section, names = parts[0]+"."+parts[1], append(names, k.Name)
		}
	}
	switch parts[0] {
	case "inlets":
		return section, append(names, "connection-config", "consumer-config")
	case "outlets":
		return section, append(names, "connection-config", "producer-config")
	}
	if section != "" {
		return section, names
	}
	for i := range Keys {
		switch k := &Keys[i]; {
		case k.Name != "" && k.Section == parts[0] && k.Section != "" && len(parts) > 1:
			section = parts[0]
		case k.Name != "" && k.Section == "":
			names = append(names, k.Name)
		case k.Section != "":
			names = append(names, k.Path())
		}
	}
	if section != "" {
		names = nil
		for i := range Keys {
			if Keys[i].Section == section {
				names = append(names, Keys[i].Name)
			}
		}
		return section, names
	}
	for _, one := range scopes {
		names = append(names, one.section)
	}
	return "", names
}

// example shows a key below a section.
func example(section string) string {
	switch first, rest, _ := strings.Cut(section, "."); {
	case strings.HasSuffix(section, "-config"):
		return "security.protocol, client.id"
	case first == "inlets" && rest == "" || first == "outlets" && rest == "":
		return "`in: {topic: orders}`"
	case first == "inlets" || first == "outlets":
		return "`topic: orders`"
	case first == "batch":
		return "`max-records: 100`"
	case first == "topics":
		return "`in: orders`"
	case first == "errors":
		return "`retry.timeout: 60000`"
	}
	return "`threshold: 5`"
}

// checkPorts reports names that no port can have.
func (l *loader) checkPorts() {
	where := map[string]string{} // port to its section
	reported := map[string]bool{}
	for _, path := range l.paths() {
		parts := strings.SplitN(path, ".", 3)
		if parts[0] != "inlets" && parts[0] != "outlets" || len(parts) < 3 {
			continue
		}
		port, o := parts[1], l.values[path].origin
		if o.rank != fromFile || reported[parts[0]+port] {
			continue
		}
		reported[parts[0]+port] = true
		if !portName.MatchString(port) {
			l.problems.at(o, "%s.%s: a port's name has lower-case letters, digits and hyphens and begins with a letter", parts[0], port)
		}
		if where[port] != "" && where[port] != parts[0] {
			l.problems.at(o, "%s is an inlet and an outlet; a port is one of them", port)
		}
		where[port] = parts[0]
	}
}
