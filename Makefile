.DEFAULT_GOAL := help
.PHONY: help build sdk-node demo test conformance check bench fuzz clean

help: ## what there is to make
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 13

build: ## the program, ./ankka-flow: one static file
	CGO_ENABLED=0 go build -o ankka-flow ./cmd/ankka-flow

sdk-node: ## the Node.js SDK, with the packages it needs
	@scripts/venv && scripts/node

demo: build ## the example on an embedded broker; Ctrl-C ends it
	@# bash -m: a process group of its own in the terminal, so that Ctrl-C reaches ankka-flow and not make
	@PYTHONPATH=sdk/python/src bash -mc './ankka-flow run -w --input in=examples/carts.jsonl -- python3 examples/cart_router.py; exit $$?'

test: ## every test, Go, Python and Node.js
	@scripts/test

conformance: ## every case of the conformance suite on every reference streamlet
	@scripts/conformance

check: ## format, vet, staticcheck, race tests, style, ruff, mypy
	@scripts/check

bench: ## the benchmarks, with allocations
	go test -run '^$$' -bench . -benchmem ./wire ./delivery/...

fuzz: ## every fuzz target for 20 s
	@scripts/fuzz 20s

clean: ## what was built and brought, and the embedded broker's data
	rm -rf ankka-flow dist .venv .cache .ankka-flow sdk/node/dist sdk/node/node_modules conformance/streamlets/typescript.mjs
