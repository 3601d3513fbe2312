package logevents

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write docs/logs.md from the table")

func TestLogPageIsMadeOfTheTable(t *testing.T) {
	path := filepath.Join("..", "..", "..", "docs", "logs.md")
	if *rewrite {
		if err := os.WriteFile(path, []byte(Page()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != Page() {
		t.Error("docs/logs.md is not what the table says; write it again: go test ./cmd/ankka-flow/logevents -rewrite")
	}
}

// use is what the sources log under one event.
type use struct{ keys, levels map[string]bool }

// reader collects the log calls of the sources.
type reader struct {
	t    *testing.T
	at   string // the place that is read
	body ast.Node
	// event is that of lines that name none: the logger has it.
	event string
	uses  map[string]*use
	calls int
}

// Every log call has an event and keys that the table has, with a level that
// the event has there; and the table has nothing that no call uses.
func TestLogCallsAreInTheTable(t *testing.T) {
	r := &reader{t: t, uses: map[string]*use{}}
	for folder, event := range map[string]string{"cmd": "", "delivery": "", "supervisor": ""} {
		r.folder(filepath.Join("..", "..", "..", folder), event)
	}
	if r.calls < 50 {
		t.Errorf("only %d log calls: does the test still find them?", r.calls)
	}
	described, wanted := map[string]bool{}, map[string]bool{}
	for _, a := range Attributes {
		described[a.Key] = true
	}
	for _, e := range Events {
		u := r.uses[e.Name]
		if u == nil {
			t.Errorf("nothing logs the event %q", e.Name)
			continue
		}
		delete(r.uses, e.Name)
		for _, key := range e.Keys {
			wanted[key] = true
			if !described[key] || !u.keys[key] {
				t.Errorf("the key %q of %q is described: %v; used: %v", key, e.Name, described[key], u.keys[key])
			}
			delete(u.keys, key)
		}
		for key := range u.keys {
			t.Errorf("the event %q is logged with %q, which the table lacks", e.Name, key)
		}
		for _, l := range e.Levels {
			if !u.levels[l.String()] {
				t.Errorf("the event %q is never logged as %v", e.Name, l)
			}
			delete(u.levels, l.String())
		}
		for l := range u.levels {
			t.Errorf("the event %q is logged as %s, which the table lacks", e.Name, l)
		}
	}
	for event := range r.uses {
		t.Errorf("the event %q is logged, and the table lacks it", event)
	}
	for key := range described {
		if !wanted[key] {
			t.Errorf("the key %q is described, and no event has it", key)
		}
	}
}

func (r *reader) folder(root, event string) {
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		r.event = event
		if filepath.Base(filepath.Dir(path)) == "kafka" {
			r.event = "kafka" // of the client's logger, which runbroker.go gives it
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Name.Name == "say" && f.Recv != nil && filepath.Base(filepath.Dir(path)) == "driver" {
				continue // its callers are read
			}
			r.body = decl
			ast.Inspect(decl, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					r.at = files.Position(call.Pos()).String()
					r.call(call)
				}
				return true
			})
		}
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

var methods = map[string]string{"Debug": "DEBUG", "Info": "INFO", "Warn": "WARN", "Error": "ERROR"}

// call notes a call where it logs.
func (r *reader) call(c *ast.CallExpr) {
	fun, ok := c.Fun.(*ast.SelectorExpr)
	if !ok {
		return
	}
	on, name := lastName(fun.X), fun.Sel.Name
	switch {
	case name == "say" && on == "d":
		r.note(r.levelsOf(c.Args[0]), r.texts(c.Args[1]), nil)
	case name == "warn" && on == "p": // the producer's, with its own limit
		r.line(r.levelsOf(c.Args[0]), c.Args[3:])
	case on != "log":
	case methods[name] != "" && c.Ellipsis == token.NoPos:
		r.line([]string{methods[name]}, c.Args[1:])
	case (name == "Log" || name == "LogAttrs") && c.Ellipsis == token.NoPos:
		r.line(r.levelsOf(c.Args[1]), c.Args[3:])
	case name == "With":
		levels := []string{"DEBUG", "WARN"} // the HTTP server's loggers
		if event := r.texts(c.Args[1])[0]; event != "kafka" {
			r.note(levels, []string{event}, nil)
		}
	}
}

// line notes a line whose attributes are args: key and value in turn, or a call
// of slog that has the key first.
func (r *reader) line(levels []string, args []ast.Expr) {
	events, keys := []string{r.event}, []string(nil)
	for i := 0; i < len(args); i++ {
		key, value := args[i], ast.Expr(nil)
		if attr, ok := args[i].(*ast.CallExpr); ok && len(attr.Args) > 1 {
			key, value = attr.Args[0], attr.Args[1]
		} else if i++; i < len(args) {
			value = args[i]
		}
		text := r.texts(key)[0]
		if text == "event" {
			events = r.texts(value)
			continue
		}
		keys = append(keys, text)
	}
	r.note(levels, events, keys)
}

func (r *reader) note(levels, events, keys []string) {
	r.calls++
	for _, event := range events {
		if event == "" {
			r.t.Errorf("%s: a line without an event", r.at)
			continue
		}
		u := r.uses[event]
		if u == nil {
			u = &use{map[string]bool{}, map[string]bool{}}
			r.uses[event] = u
		}
		if len(events) == 1 {
			for _, l := range levels {
				u.levels[l] = true
			}
		} else {
			r.pairs(u, event)
		}
		for _, key := range keys {
			u.keys[key] = true
		}
	}
}

// texts are the constants that an expression may be: its own, or those that its
// variable is given in the function.
func (r *reader) texts(e ast.Expr) []string {
	if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
		text, err := strconv.Unquote(lit.Value)
		if err != nil {
			r.t.Fatal(err)
		}
		return []string{text}
	}
	var found []string
	for _, given := range r.given(lastName(e)) {
		if lit, ok := given.(*ast.BasicLit); ok {
			found = append(found, r.texts(lit)...)
		}
	}
	if len(found) == 0 {
		r.t.Errorf("%s: an event or a key that is no constant", r.at)
		return []string{""}
	}
	return found
}

// levelsOf are the levels that an expression may be.
func (r *reader) levelsOf(e ast.Expr) []string {
	switch e := e.(type) {
	case *ast.SelectorExpr:
		return []string{strings.ToUpper(strings.TrimPrefix(e.Sel.Name, "Level"))}
	case *ast.CallExpr:
		switch lastName(e.Fun) {
		case "failureLevel", "levelOf", "troubleLevel":
			return []string{"WARN", "ERROR"}
		}
	case *ast.Ident:
		var found []string
		for _, given := range r.given(e.Name) {
			found = append(found, r.levelsOf(given)...)
		}
		return found
	}
	return nil
}

// given are what a variable is given in the function that is read.
func (r *reader) given(name string) (values []ast.Expr) {
	ast.Inspect(r.body, func(n ast.Node) bool {
		if a, ok := n.(*ast.AssignStmt); ok && len(a.Lhs) == len(a.Rhs) {
			for i, l := range a.Lhs {
				if lastName(l) == name {
					values = append(values, a.Rhs[i])
				}
			}
		}
		return true
	})
	return values
}

// pairs notes the levels that are given together with one event of several; an
// event that is given alone has the level of the first assignment, and those
// that are given in the same branch.
func (r *reader) pairs(u *use, event string) {
	var first []string
	ast.Inspect(r.body, func(n ast.Node) bool {
		var body []ast.Stmt
		switch n := n.(type) {
		case *ast.CaseClause:
			body = n.Body
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE && len(n.Lhs) == 2 && lastName(n.Lhs[1]) == "event" {
				first = r.levelsOf(n.Rhs[0])
				body = []ast.Stmt{n}
			}
		}
		r.branch(u, event, first, body)
		return true
	})
}

func (r *reader) branch(u *use, event string, first []string, body []ast.Stmt) {
	var levels []string
	named, together := false, false
	for _, s := range body {
		ast.Inspect(s, func(n ast.Node) bool {
			a, ok := n.(*ast.AssignStmt)
			if !ok || len(a.Lhs) != len(a.Rhs) {
				return true
			}
			has := slices.IndexFunc(a.Lhs, func(l ast.Expr) bool { return lastName(l) == "event" })
			level := slices.IndexFunc(a.Lhs, func(l ast.Expr) bool { return lastName(l) == "level" })
			if has >= 0 {
				named = named || r.texts(a.Rhs[has])[0] == event
				together = together || level >= 0
			}
			if level >= 0 {
				levels = append(levels, r.levelsOf(a.Rhs[level])...)
			}
			return true
		})
	}
	if named && !together {
		levels = append(levels, first...)
	}
	if named {
		for _, l := range levels {
			u.levels[l] = true
		}
	}
}

// lastName is the last word of a name: log of d.log.
func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}
