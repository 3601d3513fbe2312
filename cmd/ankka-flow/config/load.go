package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Input is what a run is configured by.
type Input struct {
	// Command is the command's name, as run: variables of flags that it does not
	// have are left alone.
	Command string
	// Flags has the flags of Keys that were given on the command line: the long
	// name to its values, as many as it was given times.
	Flags map[string][]string
	// Environ is os.Environ.
	Environ []string
	// Variables are known besides those of Keys: those of the commands' other
	// flags.
	Variables []string
}

// loader gathers the values of one Input.
type loader struct {
	in       Input
	env      map[string]string
	path     string // of the file; empty: none
	values   map[string]value
	problems Problems
	// used are the variables that ${...} looked up.
	used map[string]bool
	// badConnection: a setting of connection-config has no good text, so that what
	// the whole comes to would be said wrongly.
	badConnection bool
	// brokersInDoubt is Settings.BrokersInDoubt.
	brokersInDoubt bool
	// unknown are the beginnings of unknown keys that were reported.
	unknown map[string]bool
}

// Load resolves an input. The error is Problems: everything that is wrong, for the
// person who wrote it. The Settings are then what could be read all the same, to find
// more problems with, and not to be run.
func Load(in Input) (*Settings, error) {
	l := &loader{in: in, env: map[string]string{}, values: map[string]value{}, used: map[string]bool{}, unknown: map[string]bool{}}
	for _, e := range in.Environ {
		name, text, _ := strings.Cut(e, "=")
		l.env[name] = text
	}
	l.checkVariables()
	l.readFlags()
	l.readEnvironment()
	l.readFile()
	l.addDefaults()
	s := l.resolve()
	if len(l.problems) > 0 {
		return s, l.problems.sorted()
	}
	return s, nil
}

// put keeps a value unless a higher source has given the key.
func (l *loader) put(path string, v value) {
	if old, ok := l.values[path]; !ok || old.origin.rank < v.origin.rank {
		l.values[path] = v
	}
}

// serviceLink is what Kubernetes sets for a Service in the namespace whose name
// begins with "flow".
var serviceLink = regexp.MustCompile(`^FLOW_(.+_)?(SERVICE_HOST|SERVICE_PORT(_.+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

// linkedPort is what Kubernetes sets in NAME_PORT.
var linkedPort = regexp.MustCompile(`^(tcp|udp|sctp)://.+:\d+$`)

// checkVariables reports variables of ours that do not exist.
func (l *loader) checkVariables() {
	names := slices.Clone(l.in.Variables)
	for i := range Keys {
		if name := Keys[i].Variable(); name != "" {
			names = append(names, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.env)) {
		if !strings.HasPrefix(name, "FLOW_") || contains(names, name) {
			continue
		}
		if l.env["KUBERNETES_SERVICE_HOST"] != "" && serviceLink.MatchString(name) {
			continue
		}
		l.problems.at(origin{rank: fromEnvironment, name: name}, "there is no such setting%s", didYouMean(name, names))
	}
}

// id names a key's value: its path, or where it has none its flag or variable.
func (k *Key) id() string {
	if k.Name != "" {
		return k.Path()
	}
	if k.Flag != "" {
		return "--" + k.Flag
	}
	return k.Env
}

func (l *loader) readFlags() {
	for i := range Keys {
		k := &Keys[i]
		texts, ok := l.in.Flags[k.Flag]
		if k.Flag != "" && ok {
			l.take(k, texts, origin{rank: fromFlag, name: "--" + k.Flag})
		}
	}
}

func (l *loader) readEnvironment() {
	for i := range Keys {
		k := &Keys[i]
		text, set := l.env[k.Variable()]
		set = set && (text != "" || k.Section == errorsSection && k.Empty)
		if _, given := l.in.Flags[k.Flag]; !set || given || k.Env == "" && k.Flag != "" && !k.Has(l.in.Command) {
			continue // a flag replaces its variable, all of its lines
		}
		if l.env["KUBERNETES_SERVICE_HOST"] != "" && linkedPort.MatchString(text) {
			continue // FLOW_METRICS_PORT is also a link, to a Service named flow-metrics
		}
		o := origin{rank: fromEnvironment, name: k.Variable()}
		texts := []string{text}
		switch k.Kind {
		case Pairs, Lines:
			texts = strings.FieldsFunc(text, func(r rune) bool { return r == '\n' })
		case Bool: // as a flag takes it
			if b, err := strconv.ParseBool(text); err == nil {
				texts[0] = strconv.FormatBool(b)
			}
		}
		l.take(k, texts, o)
	}
}

// take puts what a flag or a variable gives.
func (l *loader) take(k *Key, texts []string, o origin) {
	switch k.Kind {
	case Pairs:
		l.takePairs(k, texts, o)
		return
	case Lines:
		texts = []string{strings.Join(texts, "\n")}
	case List:
		texts = []string{list(texts)}
	}
	for _, text := range texts {
		v := value{text: k.normal(text), shown: strconv.Quote(text), origin: o}
		l.check(k, "", v)
		l.put(k.id(), v)
	}
}

// list is a List's text: its items without white space around them, joined by
// commas.
func list(texts []string) string {
	var items []string
	for _, text := range texts {
		for _, item := range strings.Split(text, ",") {
			if item = strings.TrimSpace(item); item != "" {
				items = append(items, item)
			}
		}
	}
	return strings.Join(items, ",")
}

// takePairs puts NAME=VALUE settings, each at its own path.
func (l *loader) takePairs(k *Key, texts []string, o origin) {
	given := map[string]bool{}
	for _, text := range texts {
		name, val, ok := strings.Cut(text, "=")
		v := value{text: val, shown: strconv.Quote(val), origin: o}
		switch {
		case !ok || name == "" || val == "" && !k.Empty:
			shown := strconv.Quote(text)
			switch {
			case k.Section == "config" && ok:
				shown = strconv.Quote(name + "=" + hiddenText)
			case k.Section == "config": // such as token:SECRET
				shown = hiddenText
			}
			l.problems.add(o, " %s: it has the form %s", shown, k.Form)
			continue
		case given[name]:
			l.problems.add(o, " %s is given twice", name)
			continue
		}
		given[name] = true
		l.check(k, name, v)
		l.put(placed(k, name), v)
	}
}

// placed is the path of one name of a Pairs: inlets.<inlet>.input with the name in
// place of the <placeholder>.
func placed(k *Key, name string) string {
	path := k.Path()
	from := strings.IndexByte(path, '<')
	to := strings.IndexByte(path, '>')
	return path[:from] + name + path[to+1:]
}

// check reports what is wrong with a value of a flag or a variable. The name is
// that of a pair.
func (l *loader) check(k *Key, name string, v value) {
	problem := k.judgeAll(v.text)
	if problem == "" {
		return
	}
	shown := v.shown
	if k.Secret {
		shown = hiddenText
	}
	switch {
	case name != "":
		l.problems.add(v.origin, " %s: %s: %s", name, shown, problem)
	case v.origin.rank == fromEnvironment:
		l.problems.add(v.origin, "=%s: %s", shown, problem)
	default:
		l.problems.add(v.origin, " %s: %s", shown, problem)
	}
}

// judgeAll is judge for each item of a List.
func (k *Key) judgeAll(text string) string {
	if k.Kind != List || text == "" {
		return k.judge(text)
	}
	for _, item := range strings.Split(text, ",") {
		if problem := k.judge(item); problem != "" {
			return problem
		}
	}
	return ""
}

// add is at without the colon behind the place.
func (p *Problems) add(o origin, format string, args ...any) {
	*p = append(*p, Problem{Where: o.place(), Text: withoutLogins(fmt.Sprintf(format, args...)), rank: o.rank, line: o.line})
}

// readFile finds the file, and puts what it has.
func (l *loader) readFile() {
	path, o := "", origin{}
	if named, ok := l.values["--config"]; ok {
		path, o = named.text, named.origin
	} else if dir, ok := l.values["FLOW_CONFIG_DIR"]; ok {
		found, err := findFile(dir.text)
		if err != nil {
			l.problems.at(dir.origin, "%v", err)
			return
		}
		path, o = found, dir.origin
	}
	if path == "" {
		return
	}
	text, err := readBounded(path)
	if err != nil {
		l.problems.at(o, "%q: %s", path, reason(err))
		return
	}
	l.path = path
	f := parseFile(path, text)
	l.problems = append(l.problems, f.problems...)
	l.brokersInDoubt = len(f.entries) == 0 && len(f.problems) > 0
	for _, e := range f.entries {
		l.takeEntry(e)
	}
	l.checkPorts()
}

// beside is a path that the file names, which is relative to the file's folder.
func (l *loader) beside(path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(l.path), path)
}

// lookup is the environment for ${...}.
func (l *loader) lookup(name string) (string, bool) {
	l.used[name] = true
	text, ok := l.env[name]
	return text, ok
}

func (l *loader) addDefaults() {
	for i := range Keys {
		if k := &Keys[i]; k.Default != "" {
			l.put(k.id(), value{text: k.Default, shown: strconv.Quote(k.Default)})
		}
	}
}

// passedOn are variables that a process needs or may have, so that they stay in its
// environment also where ${...} looked them up.
var passedOn = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR", "PWD", "HOSTNAME",
	"FLOW_STREAMLET", "FLOW_POD_NAME", "FLOW_POD_NAMESPACE",
}

// hidden are the variables to keep from the process.
func (l *loader) hidden() []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(l.used)) {
		if !contains(passedOn, name) {
			names = append(names, name)
		}
	}
	return names
}
