"""Readers of published checkpoints and tokenizers, and the writer of tblock's model file (docs/format.md).

The modules, lower ones first:
  errors       the one exception that becomes the one error line
  jsonfile     strict JSON
  source       the files that are read, and their hashes
  safetensors  bytes -> named tensors
  floats       F32, F16, BF16: conversion, rounding, non-finite values
  panels       a matrix as panels of 16 rows, and back
  protobuf     just enough of the wire format for tokenizer.model
  vocab        a tokenizer in memory -> tok.* tensors and hash tables
  sentencepiece, bytelevel, tiktoken, llama2c_vocab, tokenizers   the tokenizer files, and which one a file is
  model        the config of the model file, the tensors it must have, a checkpoint in memory
  families     Hugging Face: config keys and tensor names of each family, as tables
  hf_config, hf, llama2c   the checkpoint sources
  plan         checkpoint and vocabulary -> the list of tensors to write
  writer       the model file, atomically
  cli          options, progress, summary, exit status
"""
