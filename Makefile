# tblock: `make help` lists the targets.
config ?= release
BUILD  ?= build/$(config)

ARCH := $(shell uname -m)
ifeq ($(config),clang)
CC      := clang
else
CC      ?= cc
endif
OPT_release = -O2
OPT_clang   = -O2
OPT_debug   = -O0
OPT_asan    = -O1 -fsanitize=address -fno-omit-frame-pointer
OPT_ubsan   = -O1 -fsanitize=undefined -fno-sanitize-recover=all
OPT      ?= $(or $(OPT_$(config)),$(error config=$(config): expected release, debug, asan, ubsan or clang))
WARN      = -Wall -Wextra -Wpedantic -Wshadow -Wconversion
# -ffp-contract=off: a fused multiply-add that the source does not spell changes bits (docs/numerics.md)
ALL_CFLAGS = -std=c17 $(OPT) -g -fPIC -fvisibility=hidden -fno-math-errno -ffp-contract=off -fopenmp $(WARN) $(CFLAGS)
CPPFLAGS += -Isrc -D_GNU_SOURCE
PKGS      = libcjson libpcre2-8 libutf8proc nettle
LIBS      = $(shell pkg-config --libs $(PKGS)) -lm

# Folders of another CPU family are left out.
ISA_x86_64  = avx2 avx512
ISA_aarch64 = neon
OTHER_ISA  := $(filter-out $(ISA_$(ARCH)),avx2 avx512 neon)
SRC := $(sort $(wildcard src/*.c src/*/*.c src/kernels/*/*.c))
SRC := $(filter-out $(OTHER_ISA:%=src/kernels/%/%.c) $(foreach i,$(OTHER_ISA),$(wildcard src/kernels/$(i)/*.c)),$(SRC))
OBJ     := $(SRC:%.c=$(BUILD)/%.o)
LIB_OBJ := $(filter-out $(BUILD)/src/main.o $(BUILD)/src/cli/%,$(OBJ))
CLI_OBJ := $(filter $(BUILD)/src/main.o $(BUILD)/src/cli/%,$(OBJ))

$(BUILD)/src/kernels/avx2/%.o:   ISA_FLAGS = -mavx2 -mfma -mf16c
$(BUILD)/src/kernels/avx512/%.o: ISA_FLAGS = -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512vl -mavx512dq -mprefer-vector-width=512

all: $(BUILD)/tblock $(BUILD)/libtblock.so

$(BUILD)/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(ALL_CFLAGS) $(ISA_FLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/libtblock.a: $(LIB_OBJ)
	rm -f $@ && ar rcs $@ $^

$(BUILD)/libtblock.so: $(LIB_OBJ)
	$(CC) $(ALL_CFLAGS) -shared -Wl,-soname,libtblock.so.0 -o $@ $^ $(LIBS)

$(BUILD)/tblock: $(CLI_OBJ) $(BUILD)/libtblock.a
	$(CC) $(ALL_CFLAGS) -o $@ $^ $(LIBS)

# tests/unit/test_X.c and tests/kernels/check_X.c: one program each
TEST_SRC := $(sort $(wildcard tests/unit/test_*.c tests/kernels/check_*.c))
TEST_BIN := $(TEST_SRC:%.c=$(BUILD)/%)
tests: $(TEST_BIN)
$(TEST_BIN): %: %.o $(BUILD)/libtblock.a
	$(CC) $(ALL_CFLAGS) -o $@ $^ $(LIBS)

clean:
	rm -rf build

-include $(OBJ:.o=.d) $(TEST_BIN:=.d)
.PHONY: all tests clean
.SECONDARY:
