# `make` alone prints what there is. Only Go, make and git are needed; the race
# detector is used where cgo can be, which takes a C compiler.
RACE := $(if $(filter 1,$(shell go env CGO_ENABLED)),-race)
BIN  := $(CURDIR)/bin
# gRPC's traces by golang.org/x/net/trace, which nothing here uses, have HTML templates, and templates can call any method of
# anything: the linker would keep all of them, a third of the binary.
SMALL := grpcnotrace
# bin/isthmus is what an image has for the platform, byte for byte: no paths of this machine are in it, and the commit is, if
# this is git's and git may read it.
COMMIT  := $(shell git ls-files --error-unmatch go.mod >/dev/null 2>&1 && echo true || echo false)
# The version that was asked for: that of VERSION, or else, for an image, of the tag in IMAGE.
RELEASE  = $(VERSION)
TAGGED   = $(word 2,$(subst :, ,$(lastword $(subst /, ,$(firstword $(subst @, ,$(IMAGE)))))))
GATEWAY  = -trimpath -buildvcs=$(COMMIT) -tags=$(SMALL) -ldflags='-s -w$(if $(RELEASE), -X isthmus/cmd/isthmus/internal/cli.release=$(RELEASE))' ./cmd/isthmus
COMMA   := ,

# KUBEBUILDER_ASSETS names a folder with a ready-made kube-apiserver and etcd, as for envtest of controller-runtime. Clusters
# run these two, and e2e/cmd/controlplane is built without them. The path may contain spaces. A relative path is made absolute,
# also if it is given on make's command line (override), because commands run in other folders.
ifdef KUBEBUILDER_ASSETS
override KUBEBUILDER_ASSETS := $(if $(filter /%,$(firstword $(KUBEBUILDER_ASSETS))),,$(CURDIR)/)$(KUBEBUILDER_ASSETS)
export KUBEBUILDER_ASSETS
ASSETS := -tags=assets
endif

# Some first builds take minutes, and go build prints nothing meanwhile. $(call announce,MODULE,FLAGS,PACKAGES,TEXT) prints TEXT
# if Go's build cache lacks one of PACKAGES. The check compiles nothing and takes about a second.
announce            = @test -z "$$(cd $1 && go list $2 -f '{{if .Stale}}stale{{end}}' $3)" || echo '$4'
APISERVER_PACKAGES := k8s.io/kubernetes/cmd/kube-apiserver/app go.etcd.io/etcd/server/v3/embed
APISERVER_TEXT     := == compiling the Kubernetes API server and etcd from source: happens once, takes 5 to 10 minutes on two cores, prints nothing
TOOLS_PACKAGES     := github.com/prometheus/prometheus/web helm.sh/helm/v4/pkg/cmd
TOOLS              := github.com/prometheus/prometheus/cmd/prometheus github.com/prometheus/prometheus/cmd/promtool helm.sh/helm/v4/cmd/helm
TOOLS_TEXT         := == compiling Prometheus and Helm from source: happens once, takes about 5 minutes on two cores, prints nothing
# The oldest kubectl needs other versions of Kubernetes' modules than every other tool. Go compiles it in the folder of its module
# in the module cache, with the go.mod of that module.
KUBECTL_MODULE      = k8s.io/kubectl@$(shell cat e2e/tools/kubectl/version.txt)
KUBECTL_FOLDER      = "$$(cd e2e/tools && go mod download $(KUBECTL_MODULE) && go list -m -f '{{.Dir}}' $(KUBECTL_MODULE))"
KUBECTL_TEXT       := == compiling the oldest kubectl that docs/install.md names: happens once, takes about 2 minutes on two cores, prints nothing

help: ## print this
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: export CGO_ENABLED := 0
build: ## build bin/isthmus, which needs no other file
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
# The tools of image and release are built with -trimpath, so that every clone shares one build cache.
image: ## a container image in out/image, and in docker where there is one (IMAGE= VERSION= PLATFORMS=OS/ARCH,...)
	cd e2e && go build -trimpath -ldflags='-s -w' -o $(BIN)/image ./cmd/image
	rm -rf out/image
	$(foreach p,$(subst $(COMMA), ,$(PLATFORMS)),$(call platform,$p))
	$(BIN)/image -tag '$(IMAGE)' -version '$(RELEASE)' $(foreach p,$(subst $(COMMA), ,$(PLATFORMS)),$(call binary,$p))

RELEASED := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64
release: export CGO_ENABLED := 0
# What else could make other bytes of the same commit.
release: export GOWORK := off
release: export GOFLAGS := -mod=readonly
release: export GOAMD64 := v1
release: export GOARM64 := v8.0
release: export SOURCE_DATE_EPOCH :=
release: ## all that is installed without a clone, in out/release: VERSION=v0.1.0 REGISTRY=registry.example.com/mesh
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

# The programs that the end-to-end tests run. The commands that only tools builds take seconds each to link.
programs: first-build build
	cd e2e && go build -ldflags='-s -w' $(ASSETS) -o $(BIN)/ ./cmd/controlplane
	$(call announce,e2e/tools,-tags=remove_all_sd,$(TOOLS_PACKAGES),$(TOOLS_TEXT))
	cd e2e/tools && go build -ldflags='-s -w' -tags=remove_all_sd -o $(BIN)/ $(TOOLS)
	$(call announce,$(KUBECTL_FOLDER),,./pkg/cmd,$(KUBECTL_TEXT))
	cd $(KUBECTL_FOLDER) && go build -ldflags='-s -w' -o $(BIN)/oldest-kubectl $(CURDIR)/e2e/tools/kubectl/main.go

tools: programs ## build the end-to-end programs too: real API servers, scenario runner, demo, Prometheus, Helm, an old kubectl
	cd e2e && go build -ldflags='-s -w' $(ASSETS) -o $(BIN)/ ./cmd/bench ./cmd/demo ./cmd/isthmus-sim ./cmd/scenario

manifests: ## what would be applied, as YAML: FOLDER=install|linkerd|link|monitoring IMAGE= VERSION= NAMESPACE= WITH= LINKERD=FILE RUNBOOKS=URL
	@cd e2e && go build -o $(BIN)/manifests ./cmd/manifests
	@$(BIN)/manifests manifests FOLDER='$(FOLDER)' IMAGE='$(if $(filter-out file,$(origin IMAGE)),$(IMAGE))' VERSION='$(VERSION)' \
	  NAMESPACE='$(NAMESPACE)' WITH='$(WITH)' LINKERD='$(LINKERD)' RUNBOOKS='$(RUNBOOKS)'

demo: first-build build ## three real clusters, linked, and a live view of a federated service (KEEP=1: leave it running; NETWORKS=1: with one behind gateways; KUBEBUILDER_ASSETS=DIR: with the kube-apiserver and etcd of that folder)
	cd e2e && go build -ldflags='-s -w' $(ASSETS) -o $(BIN)/ ./cmd/controlplane ./cmd/demo
	@$(BIN)/demo --bin $(BIN) $(if $(filter-out 0 no,$(NETWORKS)),--networks) $(if $(filter-out 0 no,$(KEEP)),--keep)

test: lint unit e2e ## everything
	@echo 'All tests have passed.'

unit: ## the product's tests, with the race detector if there is a C compiler (lint vets them)
	@echo "== unit tests$(if $(RACE),$(COMMA) with the race detector)"
	go test $(RACE) -vet=off -timeout 30m ./...

e2e: $(if $(E2E),tools,programs) ## scenarios against real API servers, the gateway as a process (E2E=REGEX: only these; lint vets the tests)
	@echo '== end to end'
ifdef E2E
	$(BIN)/scenario -gateway $(BIN)/isthmus -controlplane $(BIN)/controlplane -run '$(E2E)' e2e/testdata/cases
else
	@for c in chromium chromium-browser google-chrome google-chrome-stable; do command -v $$c >/dev/null && exit; done; \
	  echo 'There is no Chromium in $$PATH: the gateway'"'"'s page is NOT tested in one (with CI=true that fails)'
	cd e2e && ISTHMUS_BINARY=$(BIN)/isthmus ISTHMUS_CONTROLPLANE=$(BIN)/controlplane ISTHMUS_PROMETHEUS=$(BIN)/prometheus ISTHMUS_PROMTOOL=$(BIN)/promtool ISTHMUS_HELM=$(BIN)/helm ISTHMUS_KUBECTL=$(BIN)/oldest-kubectl \
	  go test $(ASSETS) -vet=off -p 3 -parallel 4 -count=1 -timeout 40m ./...
endif

faults: programs ## what happens to clusters, links and proxies, at length (FAULT=REGEX: only the faults of these names)
	cd e2e && ISTHMUS_BINARY=$(BIN)/isthmus ISTHMUS_CONTROLPLANE=$(BIN)/controlplane \
	  go test -count=1 -timeout 60m -v ./faults -long $(if $(FAULT),-run '^Test(Faults|OwnCluster)$$/^($(FAULT))$$')

mcs-conformance: $(if $(MCS_CONFORMANCE),build) ## the MCS API's own suite against two clusters that Isthmus links: MCS_CONFORMANCE=FILE, the suite as built by go test -c (docs/mcs.md)
	@test -f '$(MCS_CONFORMANCE)' -a -x '$(MCS_CONFORMANCE)' || { echo 'MCS_CONFORMANCE=FILE names no program: give the suite, built by "go test -c -o FILE ." in the folder conformance of https://github.com/kubernetes-sigs/mcs-api'; exit 1; }
	cd e2e && go build -ldflags='-s -w' -o $(BIN)/ ./cmd/mcs-conformance
	@$(BIN)/mcs-conformance -look
	@$(MAKE) --no-print-directory first-build
	cd e2e && go build -ldflags='-s -w' $(ASSETS) -o $(BIN)/ ./cmd/controlplane
	cd e2e/tools && CGO_ENABLED=0 go build -ldflags='-s -w' -o $(BIN)/node/ ./coredns
	@$(BIN)/mcs-conformance '$(abspath $(MCS_CONFORMANCE))'

CONTROLLER = Linkerd'"'"'s controller, built by "CGO_ENABLED=0 go build -o FILE ./controller/cmd" in a checkout of https://github.com/linkerd/linkerd2
mirror-migration: $(if $(LINKERD_CONTROLLER),first-build build) ## from Linkerd's service mirror to the gateway and back, three times; prints a table: LINKERD_CONTROLLER=FILE, Linkerd's controller
	@test -f '$(LINKERD_CONTROLLER)' -a -x '$(LINKERD_CONTROLLER)' || { echo 'LINKERD_CONTROLLER=FILE names no program: give $(CONTROLLER)'; exit 1; }
	cd e2e && go build -ldflags='-s -w' $(ASSETS) -o $(BIN)/ ./cmd/controlplane
	cd e2e && ISTHMUS_BINARY=$(BIN)/isthmus ISTHMUS_CONTROLPLANE=$(BIN)/controlplane ISTHMUS_LINKERD_CONTROLLER='$(abspath $(LINKERD_CONTROLLER))' \
	  go test -count=1 -timeout 20m -v -run '^TestMirrorMigration$$' .

skew: $(if $(PREVIOUS),first-build build) ## an upgrade from an earlier version to this one and back, with live streams; prints what differs: PREVIOUS=FILE, its isthmus command
	@test -n '$(PREVIOUS)' || { echo 'PREVIOUS=FILE is missing: give the isthmus command of an earlier version'; exit 1; }
	cd e2e && go build -ldflags='-s -w' $(ASSETS) -o $(BIN)/ ./cmd/controlplane ./cmd/skew
	@$(BIN)/skew '$(abspath $(PREVIOUS))'

KUBERNETES = $(shell cd e2e/tools && go list -m -f '{{.Version}}' k8s.io/kubernetes)
KUBEVAR   := -X k8s.io/component-base/version
NODE      := $(addprefix k8s.io/kubernetes/cmd/,kube-controller-manager kube-proxy kube-scheduler kubectl kubelet) \
  $(addprefix github.com/containernetworking/plugins/plugins/,ipam/host-local main/loopback main/ptp)
nodes: override KUBEBUILDER_ASSETS :=
nodes: build ## the gateway on real nodes, root and containerd needed: prints a table (EVENTS=REGEX: only these; LINKERD_CONTROLLER=FILE: also in the place of this controller of Linkerd)
	@test -z '$(LINKERD_CONTROLLER)' || test -f '$(LINKERD_CONTROLLER)' -a -x '$(LINKERD_CONTROLLER)' || { echo 'LINKERD_CONTROLLER=FILE names no program: give $(CONTROLLER)'; exit 1; }
	cd e2e && CGO_ENABLED=0 go build -ldflags='-s -w' -o $(BIN)/ ./cmd/nodes
	@$(BIN)/nodes -look
	@$(MAKE) --no-print-directory KUBEBUILDER_ASSETS= first-build
	cd e2e && go build -ldflags='-s -w' -o $(BIN)/ ./cmd/controlplane
	cd e2e/tools && CGO_ENABLED=0 go build -ldflags='-s -w $(KUBEVAR).gitVersion=$(KUBERNETES) $(KUBEVAR).gitMajor=1 $(KUBEVAR).gitMinor=$(word 2,$(subst ., ,$(KUBERNETES)))' -o $(BIN)/node/ $(NODE) ./coredns ./pause
	$(MAKE) image IMAGE=registry.example.com/isthmus:v1
	@$(BIN)/nodes -run '$(EVENTS)' $(if $(LINKERD_CONTROLLER),-linkerd '$(abspath $(LINKERD_CONTROLLER))')

sim: tools ## a gateway amid clusters and clients that misbehave as SEEDS (default 10) say, from SEED (default 1) on; SIM_FLAGS as of isthmus-sim -help
	$(BIN)/isthmus-sim -gateway $(BIN)/isthmus -seed $(or $(SEED),1) -seeds $(or $(SEEDS),10) $(SIM_FLAGS)

screenshots: tools ## write docs/page.png and docs/page-dark.png again; needs Chromium
	cd e2e && ISTHMUS_BINARY=$(BIN)/isthmus ISTHMUS_CONTROLPLANE=$(BIN)/controlplane go test -count=1 -v -run TestPage ./page -screenshots $(CURDIR)/docs

# What is compiled for lint is what the unit tests link: with the race detector, too. (GOFLAGS would also build staticcheck with it.)
lint: first-build ## gofmt, vet, staticcheck and the width of lines, in all modules; shell scripts
	@echo '== lint'
	@out=$$("$$(go env GOROOT)/bin/gofmt" -l .) || exit 1; test -z "$$out" || { echo "$$out"; exit 1; }
	go vet $(RACE) ./...
	GOFLAGS="$$(go env GOFLAGS) $(RACE)" $$(go tool -n staticcheck) ./...
	cd e2e && go vet $(ASSETS) ./... && go tool staticcheck $(ASSETS) ./...
	cd e2e/tools && go vet ./...
	revive=$$(cd e2e/tools && go tool -n revive) && config='$(CURDIR)/e2e/tools/revive.toml' && for module in . e2e e2e/tools; do \
	  (cd $$module && $$revive -config $$config -set_exit_status ./...) || exit 1; done
	cd e2e && go test -vet=off -v -run '^TestScripts' .

generate: ## write the generated code again
	go generate ./...
	cd e2e && go generate ./...

bench: tools ## what the gateway costs beside a bare gRPC server (BENCH=REGEX: only these)
	@$(BIN)/bench -run '$(BENCH)'

growth: tools ## how the gateway's costs grow with endpoints, clusters, Services, streams and connections (BENCH=REGEX: only these)
	@$(BIN)/bench -growth -run '$(BENCH)'

microbench: ## benchmarks of the hot paths
	go test -run '^$$' -bench . -benchmem ./federation ./grpcapi/... ./clusterstore/cluster

# go test -fuzz would count coverage in all that is linked, most of which is Kubernetes: an execution would take a hundred
# times as long, only to look at the counters. So fuzz tests are built with those of the code that they are about. Inputs that
# find something new are kept as they are: to make them small would take a minute for each.
FUZZED  := isthmus/... sigs.k8s.io/json/... sigs.k8s.io/yaml/... go.yaml.in/yaml/...
MILLION := FuzzJoin|FuzzJoinReference|FuzzPolicy|FuzzLabelSet

fuzz: ## every fuzz test for FUZZTIME (default 20s, and a million executions of joins and policy; FUZZ=REGEX: only these)
	@mkdir -p $(BIN); for d in $$(grep -rl '^func Fuzz' --include='*_test.go' --exclude-dir=e2e . | xargs -n1 dirname | sort -u); do \
	  go test -c $(foreach p,$(FUZZED),-gcflags='$p=-d=libfuzzer') -o $(BIN)/fuzz.test $$d || exit 1; \
	  for f in $$($(BIN)/fuzz.test -test.list '$(or $(FUZZ),^Fuzz)' | grep '^Fuzz'); do \
	    case $$f in $(MILLION)) time=1000000x;; *) time=20s;; esac; echo "$$d $$f"; \
	    (cd $$d && $(BIN)/fuzz.test -test.run '^$$' -test.fuzz "^$$f$$" -test.fuzztime $(or $(FUZZTIME),$$time) \
	      -test.fuzzminimizetime 100x -test.fuzzcachedir "$$(go env GOCACHE)/fuzz/isthmus/$$d") || exit 1; done; done

vulncheck: ## known vulnerabilities in what is built; asks vuln.go.dev
	go tool govulncheck ./...

clean: ## remove what was built
	rm -rf $(BIN) out

.PHONY: help build image release first-build programs tools manifests demo test unit e2e faults mcs-conformance mirror-migration skew sim screenshots lint generate bench growth microbench fuzz vulncheck clean
