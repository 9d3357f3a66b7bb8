# tblock: `make help` lists the targets.
config ?= release
BUILD  ?= build/$(config)

CC      ?= cc
CSTD     = -std=c17
OPT      = -O2
WARN     = -Wall -Wextra -Wpedantic -Wshadow -Wconversion
CFLAGS  += $(CSTD) $(OPT) -g -fPIC -fvisibility=hidden -fno-math-errno -ffp-contract=off $(WARN)  # contraction changes bits
CPPFLAGS += -Isrc -D_GNU_SOURCE

SRC := $(sort $(wildcard src/*.c src/*/*.c src/kernels/*/*.c))
