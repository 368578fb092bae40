# Needs go and npm. Everything is built without cgo; only "race" needs a C compiler.
export CGO_ENABLED = 0
GO ?= go
PKG ?= ./...

.PHONY: demo test check race bench models reports engine judge

demo: engine ## install the engine and let the built-in model answer
	$(GO) run ./cmd/trimtab run --stats --temp 0 -p "what is 27 + 15?"

test: engine judge ## every test, with llama.cpp itself as the judge
	$(GO) test -timeout 20m $(PKG)

check: ## formatting, vet, and a build for every platform
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo "run: gofmt -w ."; exit 1; }
	$(GO) vet ./...
	@for os in linux darwin windows; do for arch in amd64 arm64; do \
		echo "GOOS=$$os GOARCH=$$arch go build ./..."; GOOS=$$os GOARCH=$$arch $(GO) build ./... || exit 1; done; done

race: engine ## the tests under the race detector, which needs a C compiler
	CGO_ENABLED=1 $(GO) test -race -timeout 20m $(PKG)

bench: engine ## what Trimtab costs on top of llama.cpp, as paired ratios; wants quiet cores
	$(GO) run ./cmd/trimtab bench decode --markdown docs/results/decode.md
	$(GO) run ./cmd/trimtab bench steer --markdown docs/results/steer-cost.md
	$(GO) run ./cmd/trimtab bench monitors --markdown docs/results/monitors-cost.md

models: ## train the built-in models anew (Python 3, about an hour)
	sh internal/nano/train/train.sh

reports: engine ## measure the built-in models: docs/results/nano.md and nano-diffusion.md
	$(GO) test ./internal/nano -run BehaviourReport -samples 300 -report $(CURDIR)/docs/results/nano.md -timeout 30m
	$(GO) test ./internal/nano/diffusion -run TestReport -samples 300 -report $(CURDIR)/docs/results/nano-diffusion.md -timeout 30m

engine: ## the pinned llama.cpp libraries, into the user's cache
	@$(GO) run ./cmd/trimtab engine install

judge: ## node-llama-cpp, the outside judge of greedy continuations
	@cd testdata/node && npm ci --omit=optional --ignore-scripts --no-audit --no-fund --loglevel=error
