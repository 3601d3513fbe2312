package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

const (
	// maxFile bounds the configuration file, and each file that it names.
	maxFile = 4 << 20
	// maxEntries bounds what aliases may blow it up to, and maxDepth its nesting.
	maxEntries = 10_000
	maxDepth   = 32
)

// fileNames are looked for in FLOW_CONFIG_DIR.
var fileNames = []string{"flow.yaml", "flow.yml", "flow.json"}

// entry is one value of the file: its path joined by dots, whether the dots were
// written as such or as nested maps.
type entry struct {
	path string
	line int
	// texts is one text, or those of a sequence.
	texts    []string
	sequence bool
	// null: nothing stands behind the colon. section: an empty map.
	null, section bool
	// merged: it came through <<, so that the map's own key wins.
	merged bool
}

// file is a parsed configuration file.
type file struct {
	path     string
	entries  []entry
	problems Problems
	anchors  map[string]ast.Node
	// tooMuch: a bound was met, and nothing more is read.
	tooMuch bool
}

func (f *file) at(line int, format string, args ...any) {
	f.problems.at(origin{rank: fromFile, name: f.path, line: line}, format, args...)
}

// readBounded reads a file of at most maxFile bytes.
func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("it is larger than %d MiB", maxFile>>20)
	}
	return text, err
}

// reason is an error of the file system without the path, which stands before it.
func reason(err error) string {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	return err.Error()
}

// findFile is the file in a folder of FLOW_CONFIG_DIR.
func findFile(dir string) (string, error) {
	var found []string
	for _, name := range fileNames {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			found = append(found, name)
		}
	}
	switch len(found) {
	case 1:
		return filepath.Join(dir, found[0]), nil
	case 0:
		if _, err := os.Stat(dir); err != nil {
			return "", fmt.Errorf("%q: %s", dir, reason(err))
		}
		if conf, _ := filepath.Glob(filepath.Join(dir, "*.conf")); len(conf) > 0 { // the pattern is good
			return "", fmt.Errorf("%q has %s, but HOCON is not read; write the same keys as flow.yaml or flow.json", dir, filepath.Base(conf[0]))
		}
		return "", fmt.Errorf("%q has none of %s", dir, strings.Join(fileNames, ", "))
	}
	return "", fmt.Errorf("%q has %s; keep one", dir, strings.Join(found, " and "))
}

// parseFile reads YAML, of which JSON is a part. Everything that is wrong with its
// form is among the problems.
func parseFile(path string, text []byte) *file {
	f := &file{path: path, anchors: map[string]ast.Node{}}
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	if strings.HasSuffix(path, ".conf") {
		f.at(1, "HOCON is not read; write the same keys as YAML or JSON")
		return f
	}
	if strings.HasSuffix(path, ".json") && !f.isJSON(text) {
		return f
	}
	parsed, err := parser.ParseBytes(text, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		f.syntax(err)
		return f
	}
	var body ast.Node
	for _, doc := range parsed.Docs {
		_, directive := doc.Body.(*ast.DirectiveNode)
		switch {
		case doc.Body == nil || directive:
		case body != nil:
			f.at(lineOf(doc.Body), "a second document begins; one file is one configuration")
			return f
		default:
			body = doc.Body
		}
	}
	if body != nil {
		f.walk(nil, body, 0, false)
		if f.tooMuch {
			f.entries = nil
		}
		f.unwrap()
		f.dropBelowValues()
		f.dropRepeated()
	}
	return f
}

// isJSON checks a .json file's form by JSON's own rules, which are narrower.
func (f *file) isJSON(text []byte) bool {
	var any json.RawMessage
	err := json.Unmarshal(text, &any)
	var syntax *json.SyntaxError
	switch {
	case err == nil:
		return true
	case errors.As(err, &syntax):
		offset := min(int(syntax.Offset), len(text))
		f.at(1+bytes.Count(text[:offset], []byte("\n")), "it is not JSON: %s", syntax.Error())
	default:
		f.at(1, "it is not JSON: %v", err)
	}
	return false
}

// syntax reports the parser's error without the excerpt of the file in it, which
// might show a secret.
func (f *file) syntax(err error) {
	var syntax *yaml.SyntaxError
	if !errors.As(err, &syntax) {
		f.at(1, "it is not YAML")
		return
	}
	line := 1
	if syntax.Token != nil && syntax.Token.Position != nil {
		line = syntax.Token.Position.Line
	}
	hint := ""
	switch {
	case strings.Contains(syntax.Message, "mapping value is not allowed"):
		hint = " (a value with a colon and a space in it needs quotes; keys of one map begin in the same column)"
	case strings.Contains(syntax.Message, "found character '\t'"):
		hint = " (indent with spaces)"
	case strings.Contains(syntax.Message, "reserved character"):
		hint = " (put the value in quotes)"
	}
	// Some messages quote the text.
	message, _, _ := strings.Cut(syntax.Message, `"`)
	f.at(line, "it is not YAML: %s%s", strings.TrimRight(message, ": "), hint)
}

func lineOf(n ast.Node) int {
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 {
		n = m.Values[0].Key
	}
	if t := n.GetToken(); t != nil && t.Position != nil {
		return t.Position.Line
	}
	return 1
}

// walk flattens a node under a path.
func (f *file) walk(path []string, n ast.Node, depth int, merged bool) {
	if f.tooMuch {
		return
	}
	if depth > maxDepth || len(f.entries) > maxEntries {
		f.at(lineOf(n), "the file is nested or repeats itself too much to be a configuration")
		f.tooMuch = true
		return
	}
	switch v := n.(type) {
	case *ast.MappingNode:
		if len(v.Values) == 0 {
			f.add(path, n, entry{section: true, merged: merged})
		}
		for _, pair := range v.Values {
			if f.tooMuch {
				return
			}
			f.pair(path, pair, depth, merged)
		}
	case *ast.MappingValueNode:
		f.pair(path, v, depth, merged)
	case *ast.AnchorNode:
		f.anchors[v.Name.GetToken().Value] = v.Value
		f.walk(path, v.Value, depth+1, merged)
	case *ast.AliasNode:
		if to, ok := f.anchors[v.Value.GetToken().Value]; ok {
			f.walk(path, to, depth+1, merged)
			return
		}
		// What stands behind the star may be a secret.
		f.at(lineOf(v), "%s: a value that begins with * is an alias in YAML, and there is no such anchor above it; put a text in quotes", orTop(path))
	case *ast.SequenceNode:
		f.sequence(path, v, merged)
	default:
		text, null, ok := scalar(n)
		if !ok {
			f.at(lineOf(n), "%s: this form of YAML is not read; write plain keys and values", orTop(path))
			return
		}
		f.add(path, n, entry{texts: []string{text}, null: null, merged: merged})
	}
}

func orTop(path []string) string {
	if len(path) == 0 {
		return "the file"
	}
	return strings.Join(path, ".")
}

func (f *file) add(path []string, n ast.Node, e entry) {
	if e.line = lineOf(n); len(path) == 0 {
		if !e.section && !e.null {
			f.at(e.line, "the file is no map; it has keys, such as `pipeline: orders`")
		}
		return
	}
	e.path = strings.Join(path, ".")
	f.entries = append(f.entries, e)
}

func (f *file) pair(path []string, pair *ast.MappingValueNode, depth int, merged bool) {
	if _, ok := pair.Key.(*ast.MergeKeyNode); ok {
		f.merge(path, pair.Value, depth)
		return
	}
	key, null, ok := scalar(pair.Key)
	if !ok || null || key == "" || strings.HasPrefix(key, ".") || strings.HasSuffix(key, ".") || strings.Contains(key, "..") || strings.ContainsFunc(key, unicode.IsControl) {
		f.at(lineOf(pair.Key), "%s: a key that is no plain text", orTop(path))
		return
	}
	under := append(append([]string{}, path...), key)
	before := len(f.entries)
	f.walk(under, pair.Value, depth+1, merged)
	// A value on the lines below its key, and what an alias stands for, is changed
	// where the key is.
	if len(f.entries) == before+1 && f.entries[before].path == strings.Join(under, ".") {
		f.entries[before].line = lineOf(pair.Key)
	}
}

// merge takes the keys of other maps in, as << says.
func (f *file) merge(path []string, n ast.Node, depth int) {
	if list, ok := n.(*ast.SequenceNode); ok {
		for _, one := range list.Values {
			f.walk(path, one, depth+1, true)
		}
		return
	}
	f.walk(path, n, depth+1, true)
}

func (f *file) sequence(path []string, v *ast.SequenceNode, merged bool) {
	e := entry{sequence: true, merged: merged}
	for _, one := range v.Values {
		text, null, ok := scalar(one)
		if !ok || null {
			f.at(lineOf(one), "%s: a list of plain values is read, not of maps or lists", orTop(path))
			return
		}
		e.texts = append(e.texts, text)
	}
	f.add(path, v, e)
}

// scalar is a node's text as it was written: 007 stays 007, and 1.10 keeps its
// zero.
func scalar(n ast.Node) (text string, null, ok bool) {
	switch v := n.(type) {
	case *ast.StringNode:
		return v.Value, false, true
	case *ast.LiteralNode:
		return v.Value.Value, false, true
	case *ast.NullNode:
		return "", true, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, false, true
	case *ast.TagNode:
		if v.Start != nil && v.Start.Value == string(token.StringTag) {
			return scalar(v.Value)
		}
	}
	return "", false, false
}

// unwrap takes the root key `flow` away.
func (f *file) unwrap() {
	wrapped := false
	for _, e := range f.entries {
		wrapped = wrapped || e.path == "flow" || strings.HasPrefix(e.path, "flow.")
	}
	if !wrapped {
		return
	}
	kept := f.entries[:0]
	for _, e := range f.entries {
		inner, ok := strings.CutPrefix(e.path, "flow.")
		switch {
		case ok:
			e.path = inner
			kept = append(kept, e)
		case e.path != "flow":
			f.at(e.line, "%s stands beside the root key flow; put it below flow", e.path)
		case !e.null && !e.section:
			f.at(e.line, "flow: it has keys below it, such as `pipeline: orders`")
		}
	}
	f.entries = kept
}

// dropBelowValues reports maps where one value is due. What they hold is not named:
// a password in braces would be a key.
func (f *file) dropBelowValues() {
	reported := map[string]bool{}
	kept := f.entries[:0]
	for _, e := range f.entries {
		of := aboveIt(e.path)
		if of == "" {
			kept = append(kept, e)
		} else if !reported[of] {
			reported[of] = true
			f.at(e.line, "%s: it has one value and no keys below it; put a text with braces in quotes", of)
		}
	}
	f.entries = kept
}

// dropRepeated reports keys that are given twice, and lets a map's own keys win
// over merged ones.
func (f *file) dropRepeated() {
	first := map[string]int{}
	kept := f.entries[:0]
	for _, e := range f.entries {
		i, twice := first[e.path]
		switch {
		case !twice:
			first[e.path] = len(kept)
			kept = append(kept, e)
		case e.section || kept[i].section || e.merged:
		case kept[i].merged:
			kept[i] = e
		default:
			f.at(e.line, "%s is given twice, first in line %d; keep one", e.path, kept[i].line)
		}
	}
	f.entries = kept
}
