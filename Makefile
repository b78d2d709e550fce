# Run `make` to print the targets. Most targets only need Go, make and git. If cgo is enabled, which
# needs a C compiler, tests run with the race detector.
RACE := $(if $(filter 1,$(shell go env CGO_ENABLED)),-race)
BIN  := $(CURDIR)/bin
# The tag grpcnotrace removes gRPC's traces in golang.org/x/net/trace, which Isthmus does not use.
# That package has HTML templates, and a template can call any exported method. With the package,
# the linker would therefore keep all exported methods, which are a third of the binary.
SMALL := grpcnotrace
# For the same version and platform, bin/isthmus and the binary in an image are identical. The
# binary contains no paths of the machine that built it. It contains the commit if git tracks go.mod
# and may read the repository.
COMMIT  := $(shell git ls-files --error-unmatch go.mod >/dev/null 2>&1 && echo true || echo false)
# RELEASE is the version in the binary. The target image falls back to TAGGED, the tag in IMAGE.
RELEASE  = $(VERSION)
TAGGED   = $(word 2,$(subst :, ,$(lastword $(subst /, ,$(firstword $(subst @, ,$(IMAGE)))))))
GATEWAY  = -trimpath -buildvcs=$(COMMIT) -tags=$(SMALL) -ldflags='-s -w$(if $(RELEASE), -X isthmus/cmd/isthmus/internal/cli.release=$(RELEASE))' ./cmd/isthmus
COMMA   := ,

# KUBEBUILDER_ASSETS is a folder with prebuilt kube-apiserver and etcd programs, as for envtest of
# controller-runtime. Clusters run these programs, and e2e/cmd/controlplane is built without them.
# The path may contain spaces. Commands run in other folders, so a relative path is made absolute.
# With override, this also works for a path on make's command line.
ifdef KUBEBUILDER_ASSETS
override KUBEBUILDER_ASSETS := $(if $(filter /%,$(firstword $(KUBEBUILDER_ASSETS))),,$(CURDIR)/)$(KUBEBUILDER_ASSETS)
export KUBEBUILDER_ASSETS
ASSETS := -tags=assets
endif

# Some first builds take minutes, and go build prints nothing in that time.
# $(call announce,MODULE,FLAGS,PACKAGES,TEXT) prints TEXT if one of PACKAGES is not in Go's build
# cache. The check compiles nothing and takes about a second.
announce            = @test -z "$$(cd $1 && go list $2 -f '{{if .Stale}}stale{{end}}' $3)" || echo '$4'
APISERVER_PACKAGES := k8s.io/kubernetes/cmd/kube-apiserver/app go.etcd.io/etcd/server/v3/embed
APISERVER_TEXT     := == compiling the Kubernetes API server and etcd from source: only once, 5 to 10 minutes on two cores, without output
TOOLS_PACKAGES     := github.com/prometheus/prometheus/web helm.sh/helm/v4/pkg/cmd
TOOLS              := github.com/prometheus/prometheus/cmd/prometheus github.com/prometheus/prometheus/cmd/promtool helm.sh/helm/v4/cmd/helm
TOOLS_TEXT         := == compiling Prometheus and Helm from source: only once, about 5 minutes on two cores, without output
# The oldest kubectl needs other versions of Kubernetes' modules than the other tools. Go therefore
# compiles it in the folder of its module in the module cache, with that module's go.mod.
KUBECTL_MODULE      = k8s.io/kubectl@$(shell cat e2e/tools/kubectl/version.txt)
KUBECTL_FOLDER      = "$$(cd e2e/tools && go mod download $(KUBECTL_MODULE) && go list -m -f '{{.Dir}}' $(KUBECTL_MODULE))"
KUBECTL_TEXT       := == compiling the oldest kubectl that Isthmus supports: only once, about 2 minutes on two cores, without output

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{sub(/ \(/, "\n                      (", $$2); printf "make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo 'With KUBEBUILDER_ASSETS=DIR, all targets that start clusters, except nodes, run the kube-apiserver and etcd in DIR and do not compile them.'

build: export CGO_ENABLED := 0
build: ## Build bin/isthmus, which needs no other files (VERSION=v0.1.0: the version that it prints)
	go build -o $(BIN)/isthmus $(GATEWAY)

PLATFORMS ?= linux/$(shell go env GOARCH)
IMAGE     ?= isthmus
target     = GOOS=$(firstword $(subst /, ,$1)) GOARCH=$(lastword $(subst /, ,$1))
binary     = out/image/isthmus-$(subst /,-,$1)
define platform
	$(call target,$1) go build -o $(call binary,$1) $(GATEWAY)

endef
image: export CGO_ENABLED := 0
image: RELEASE = $(or $(VERSION),$(TAGGED))
# image and release build their tools with -trimpath, so that all clones share the build cache.
image: ## Build a container image in out/image, and load it into docker if docker runs (IMAGE=NAME[:TAG] VERSION=v0.1.0 PLATFORMS=linux/amd64,linux/arm64)
	cd e2e && go build -trimpath -ldflags='-s -w' -o $(BIN)/image ./cmd/image
	rm -rf out/image
	$(foreach p,$(subst $(COMMA), ,$(PLATFORMS)),$(call platform,$p))
	$(BIN)/image -tag '$(IMAGE)' -version '$(RELEASE)' $(foreach p,$(subst $(COMMA), ,$(PLATFORMS)),$(call binary,$p))

RELEASED := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64
release: export CGO_ENABLED := 0
# The environment's values of these variables could change the bytes of a release.
release: export GOWORK := off
release: export GOFLAGS := -mod=readonly
release: export GOAMD64 := v1
release: export GOARM64 := v8.0
release: export SOURCE_DATE_EPOCH :=
release: ## Build a release in out/release, for installation without a clone (VERSION=v0.1.0 REGISTRY=registry.example.com/mesh)
	cd e2e && go build -trimpath -ldflags='-s -w' -o $(BIN)/ ./cmd/image ./cmd/manifests
	rm -rf out/image out/release
	$(foreach p,$(RELEASED),$(call platform,$p))
	$(BIN)/image release -version '$(VERSION)' -registry '$(REGISTRY)' -manifests $(BIN)/manifests $(foreach p,$(RELEASED),$(call binary,$p))

# Targets that build or vet e2e/cmd/controlplane depend on first-build.
first-build:
ifdef ASSETS
	@cd e2e && go run ./cmd/assets
else
	$(call announce,e2e,,$(APISERVER_PACKAGES),$(APISERVER_TEXT))
endif

# programs builds what the end-to-end tests run. The other commands, each of which takes seconds to
# link, are built only by tools.
programs: first-build build
	cd e2e && go build -ldflags='-s -w' $(ASSETS) -o $(BIN)/ ./cmd/controlplane
	$(call announce,e2e/tools,-tags=remove_all_sd,$(TOOLS_PACKAGES),$(TOOLS_TEXT))
	cd e2e/tools && go build -ldflags='-s -w' -tags=remove_all_sd -o $(BIN)/ $(TOOLS)
	$(call announce,$(KUBECTL_FOLDER),,./pkg/cmd,$(KUBECTL_TEXT))
	cd $(KUBECTL_FOLDER) && go build -ldflags='-s -w' -o $(BIN)/oldest-kubectl $(CURDIR)/e2e/tools/kubectl/main.go

tools: programs ## Build Isthmus and programs for tests, such as API servers, scenario, Prometheus and Helm
	cd e2e && go build -ldflags='-s -w' $(ASSETS) -o $(BIN)/ ./cmd/bench ./cmd/demo ./cmd/isthmus-sim ./cmd/scenario

manifests: ## Print manifests for kubectl apply (FOLDER=install|linkerd|link|monitoring IMAGE= VERSION= NAMESPACE= WITH= LINKERD=FILE RUNBOOKS=URL)
	@cd e2e && go build -o $(BIN)/manifests ./cmd/manifests
	@$(BIN)/manifests manifests FOLDER='$(FOLDER)' IMAGE='$(if $(filter-out file,$(origin IMAGE)),$(IMAGE))' VERSION='$(VERSION)' \
	  NAMESPACE='$(NAMESPACE)' WITH='$(WITH)' LINKERD='$(LINKERD)' RUNBOOKS='$(RUNBOOKS)'

demo: first-build build ## Run three linked clusters and show a federated service live (KEEP=1: keep running; NETWORKS=1: add a cluster behind gateways)
	cd e2e && go build -ldflags='-s -w' $(ASSETS) -o $(BIN)/ ./cmd/controlplane ./cmd/demo
	@$(BIN)/demo --bin $(BIN) $(if $(filter-out 0 no,$(NETWORKS)),--networks) $(if $(filter-out 0 no,$(KEEP)),--keep)

test: lint unit e2e ## Run lint, unit and e2e
	@echo 'All tests have passed.'

# unit and e2e do not vet the tests, because lint does.
unit: ## Run the product's unit tests, with the race detector if there is a C compiler
	@echo "== unit tests$(if $(RACE),$(COMMA) with the race detector)"
	go test $(RACE) -vet=off -timeout 30m ./...

e2e: $(if $(E2E),tools,programs) ## Run end-to-end tests on real API servers (E2E=REGEX: only the cases whose names match)
	@echo '== end-to-end tests'
ifdef E2E
	$(BIN)/scenario -gateway $(BIN)/isthmus -controlplane $(BIN)/controlplane -run '$(E2E)' e2e/testdata/cases
else
	@for c in chromium chromium-browser google-chrome google-chrome-stable; do command -v $$c >/dev/null && exit; done; \
	  echo 'Chromium is not in $$PATH: the test of the admin page is skipped, or fails if CI=true'
	cd e2e && ISTHMUS_BINARY=$(BIN)/isthmus ISTHMUS_CONTROLPLANE=$(BIN)/controlplane ISTHMUS_PROMETHEUS=$(BIN)/prometheus ISTHMUS_PROMTOOL=$(BIN)/promtool ISTHMUS_HELM=$(BIN)/helm ISTHMUS_KUBECTL=$(BIN)/oldest-kubectl \
	  go test $(ASSETS) -vet=off -p 3 -parallel 4 -count=1 -timeout 40m ./...
endif

faults: programs ## Run long tests of faults in clusters, links and proxies (FAULT=REGEX: only the faults whose names match)
	cd e2e && ISTHMUS_BINARY=$(BIN)/isthmus ISTHMUS_CONTROLPLANE=$(BIN)/controlplane \
	  go test -count=1 -timeout 60m -v ./faults -long $(if $(FAULT),-run '^Test(Faults|OwnCluster)$$/^($(FAULT))$$')

mcs-conformance: $(if $(MCS_CONFORMANCE),build) ## Run the MCS API's conformance suite on two clusters that Isthmus links (MCS_CONFORMANCE=FILE: the suite; see docs/mcs.md)
	@test -f '$(MCS_CONFORMANCE)' -a -x '$(MCS_CONFORMANCE)' || { echo 'MCS_CONFORMANCE is not an executable file: set it to the suite, built with "go test -c -o FILE ." in the folder conformance of https://github.com/kubernetes-sigs/mcs-api'; exit 1; }
	cd e2e && go build -ldflags='-s -w' -o $(BIN)/ ./cmd/mcs-conformance
	@$(BIN)/mcs-conformance -look
	@$(MAKE) --no-print-directory first-build
	cd e2e && go build -ldflags='-s -w' $(ASSETS) -o $(BIN)/ ./cmd/controlplane
	cd e2e/tools && CGO_ENABLED=0 go build -ldflags='-s -w' -o $(BIN)/node/ ./coredns
	@$(BIN)/mcs-conformance '$(abspath $(MCS_CONFORMANCE))'

CONTROLLER = Linkerd'"'"'s controller, built with "CGO_ENABLED=0 go build -o FILE ./controller/cmd" in a checkout of https://github.com/linkerd/linkerd2
mirror-migration: $(if $(LINKERD_CONTROLLER),first-build build) ## Migrate from Linkerd's service mirror to Isthmus and back three times, and print a table (LINKERD_CONTROLLER=FILE: Linkerd's controller)
	@test -f '$(LINKERD_CONTROLLER)' -a -x '$(LINKERD_CONTROLLER)' || { echo 'LINKERD_CONTROLLER is not an executable file: set it to $(CONTROLLER)'; exit 1; }
	cd e2e && go build -ldflags='-s -w' $(ASSETS) -o $(BIN)/ ./cmd/controlplane
	cd e2e && ISTHMUS_BINARY=$(BIN)/isthmus ISTHMUS_CONTROLPLANE=$(BIN)/controlplane ISTHMUS_LINKERD_CONTROLLER='$(abspath $(LINKERD_CONTROLLER))' \
	  go test -count=1 -timeout 20m -v -run '^TestMirrorMigration$$' .

skew: $(if $(PREVIOUS),first-build build) ## Upgrade from an earlier version and roll back with live streams, and print the differences (PREVIOUS=FILE: the earlier isthmus)
	@test -n '$(PREVIOUS)' || { echo 'PREVIOUS is not set: set it to the isthmus binary of an earlier version'; exit 1; }
	cd e2e && go build -ldflags='-s -w' $(ASSETS) -o $(BIN)/ ./cmd/controlplane ./cmd/skew
	@$(BIN)/skew '$(abspath $(PREVIOUS))'

KUBERNETES = $(shell cd e2e/tools && go list -m -f '{{.Version}}' k8s.io/kubernetes)
KUBEVAR   := -X k8s.io/component-base/version
NODE      := $(addprefix k8s.io/kubernetes/cmd/,kube-controller-manager kube-proxy kube-scheduler kubectl kubelet) \
  $(addprefix github.com/containernetworking/plugins/plugins/,ipam/host-local main/loopback main/ptp)
nodes: override KUBEBUILDER_ASSETS :=
nodes: build ## Run Isthmus on real nodes and print a table; needs root and containerd (EVENTS=REGEX: only the events that match; LINKERD_CONTROLLER=FILE: also replace Linkerd's controller)
	@test -z '$(LINKERD_CONTROLLER)' || test -f '$(LINKERD_CONTROLLER)' -a -x '$(LINKERD_CONTROLLER)' || { echo 'LINKERD_CONTROLLER is not an executable file: set it to $(CONTROLLER)'; exit 1; }
	cd e2e && CGO_ENABLED=0 go build -ldflags='-s -w' -o $(BIN)/ ./cmd/nodes
	@$(BIN)/nodes -look
	@$(MAKE) --no-print-directory KUBEBUILDER_ASSETS= first-build
	cd e2e && go build -ldflags='-s -w' -o $(BIN)/ ./cmd/controlplane
	cd e2e/tools && CGO_ENABLED=0 go build -ldflags='-s -w $(KUBEVAR).gitVersion=$(KUBERNETES) $(KUBEVAR).gitMajor=1 $(KUBEVAR).gitMinor=$(word 2,$(subst ., ,$(KUBERNETES)))' -o $(BIN)/node/ $(NODE) ./coredns ./pause
	$(MAKE) image IMAGE=registry.example.com/isthmus:v1
	@$(BIN)/nodes -run '$(EVENTS)' $(if $(LINKERD_CONTROLLER),-linkerd '$(abspath $(LINKERD_CONTROLLER))')

sim: tools ## Simulate clusters and clients that misbehave (SEED=1: the first seed; SEEDS=10: their number; SIM_FLAGS=FLAGS: see bin/isthmus-sim -help)
	$(BIN)/isthmus-sim -gateway $(BIN)/isthmus -seed $(or $(SEED),1) -seeds $(or $(SEEDS),10) $(SIM_FLAGS)

screenshots: tools ## Update docs/page.png and docs/page-dark.png; needs Chromium
	cd e2e && ISTHMUS_BINARY=$(BIN)/isthmus ISTHMUS_CONTROLPLANE=$(BIN)/controlplane go test -count=1 -v -run TestPage ./page -screenshots $(CURDIR)/docs

# lint compiles packages with the race detector, like the unit tests, so that both use the same
# build cache. With these GOFLAGS, go tool would also build staticcheck itself with the race
# detector, so go tool -n only prints its path.
lint: first-build ## Check formatting, vet, staticcheck, line length and shell scripts in all modules
	@echo '== lint'
	@out=$$("$$(go env GOROOT)/bin/gofmt" -l .) || exit 1; test -z "$$out" || { echo "$$out"; exit 1; }
	go vet $(RACE) ./...
	GOFLAGS="$$(go env GOFLAGS) $(RACE)" $$(go tool -n staticcheck) ./...
	cd e2e && go vet $(ASSETS) ./... && go tool staticcheck $(ASSETS) ./...
	cd e2e/tools && go vet ./...
	revive=$$(cd e2e/tools && go tool -n revive) && config='$(CURDIR)/e2e/tools/revive.toml' && for module in . e2e e2e/tools; do \
	  (cd $$module && $$revive -config $$config -set_exit_status ./...) || exit 1; done
	cd e2e && go test -vet=off -v -run '^TestScripts' .

generate: ## Update the generated files
	go generate ./...
	cd e2e && go generate ./...

bench: tools ## Compare the costs of Isthmus with those of a bare gRPC server (BENCH=REGEX: only the trials whose names match)
	@$(BIN)/bench -run '$(BENCH)'

growth: tools ## Measure how costs grow with endpoints, clusters, Services, streams and connections (BENCH=REGEX: only the trials whose names match)
	@$(BIN)/bench -growth -run '$(BENCH)'

microbench: ## Run the Go benchmarks of the hot paths
	go test -run '^$$' -bench . -benchmem ./federation ./grpcapi/... ./clusterstore/cluster

# go test -fuzz would count coverage in all linked packages, most of which belong to Kubernetes.
# Reading the counters would make each execution a hundred times slower. Fuzz tests are therefore
# built with coverage counters only in the packages that they test. Minimizing an input that finds
# new coverage would take a minute, so minimization ends after 100 executions.
FUZZED  := isthmus/... sigs.k8s.io/json/... sigs.k8s.io/yaml/... go.yaml.in/yaml/...
MILLION := FuzzJoin|FuzzJoinReference|FuzzPolicy|FuzzLabelSet

fuzz: ## Run every fuzz test for 20 s, or a million times for joins, policy and labels (FUZZTIME=2m: the time for each; FUZZ=REGEX: only the tests that match)
	@mkdir -p $(BIN); for d in $$(grep -rl '^func Fuzz' --include='*_test.go' --exclude-dir=e2e . | xargs -n1 dirname | sort -u); do \
	  go test -c $(foreach p,$(FUZZED),-gcflags='$p=-d=libfuzzer') -o $(BIN)/fuzz.test $$d || exit 1; \
	  for f in $$($(BIN)/fuzz.test -test.list '$(or $(FUZZ),^Fuzz)' | grep '^Fuzz'); do \
	    case $$f in $(MILLION)) time=1000000x;; *) time=20s;; esac; echo "$$d $$f"; \
	    (cd $$d && $(BIN)/fuzz.test -test.run '^$$' -test.fuzz "^$$f$$" -test.fuzztime $(or $(FUZZTIME),$$time) \
	      -test.fuzzminimizetime 100x -test.fuzzcachedir "$$(go env GOCACHE)/fuzz/isthmus/$$d") || exit 1; done; done

vulncheck: ## Find known vulnerabilities in the code of Isthmus and its dependencies; needs access to vuln.go.dev
	go tool govulncheck ./...

clean: ## Remove bin and out
	rm -rf $(BIN) out

.PHONY: help build image release first-build programs tools manifests demo test unit e2e faults mcs-conformance mirror-migration skew sim screenshots lint generate bench growth microbench fuzz vulncheck clean
