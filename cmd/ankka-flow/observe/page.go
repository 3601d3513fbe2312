package observe

import (
	_ "embed"
	"html/template"
	"net/http"
	"strconv"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"fixed": func(decimals int, seconds *float64) string { return strconv.FormatFloat(*seconds, 'f', decimals, 64) },
}).Parse(pageText))

// page is the status for people: one page that needs nothing else and no
// script, and asks for itself again every two seconds.
func (v *view) page(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	_ = pageTemplate.Execute(w, v.status(r.Context())) // an error is of the connection
}
