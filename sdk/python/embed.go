package python

import "embed"

// Sources is the import package ankka_flow, below Root.
//
//go:embed src/ankka_flow/*.py src/ankka_flow/py.typed
var Sources embed.FS

// Root is the folder in Sources that a Python's path needs.
const Root = "src"
